"""A terminal in a running job, among the Jupyter server's own terminals."""

from __future__ import annotations

import msgspec
from tornado.web import authenticated

from jupyter_slurm.client import AgentClient
from jupyter_slurm.commands.shell import ANY_SHELL
from jupyter_slurm.errors import ConfigError
from jupyter_slurm.formatting import visible
from jupyter_slurm.server.calls import OWN
from jupyter_slurm.server.handlers import Handler

# $1: the title of the tab; then the program. If the terminal's size changes while srun starts, srun
# misses all later changes (22.05: "pty: accept failure"). So wait until the page has replaced the
# initial size, 24 rows and 80 columns. JupyterLab closes the tab when the program ends, so keep the
# terminal open after an error.
_IN_TAB = r"""printf '\033]2;%s\007' "$1"; shift
tries=20
while [ "$(stty size)" = "24 80" ] && [ "$tries" -gt 0 ]; do sleep 0.1; tries=$((tries - 1)); done
sleep 0.3
"$@" && exit
rc=$?
printf '\r\n[exit code %s; Enter closes the terminal] ' "$rc"
read -r _
exit "$rc"
"""


class _Wish(msgspec.Struct):
    job_id: str
    node: str | None = None


class TerminalHandler(Handler):
    """`POST terminal`: open a terminal in a job, on the given node, if any. Answer like Jupyter's
    `POST api/terminals`."""

    @authenticated
    async def post(self) -> None:
        await self.permit(OWN["terminal"])
        wish = self.wish(_Wish)
        manager = self.settings.get("terminal_manager")
        if manager is None:
            raise ConfigError(
                "This Jupyter server has no terminals.",
                hint="Set `ServerApp.terminals_enabled` to true and install "
                "`jupyter_server_terminals`, or run `jupyter slurm shell --job ID` in a terminal.",
            )
        words = await self.relay.with_agent(lambda agent: _words(agent, wish))
        self.give_value(manager.create(shell_command=words))


def _words(agent: AgentClient, wish: _Wish) -> list[str]:
    argv = agent.shell_in_job(wish.job_id, ANY_SHELL, wish.node)
    job = agent.job(wish.job_id)
    title = visible(f"{job.name} · {wish.node or job.nodes[0]}")
    return ["/bin/sh", "-c", _IN_TAB, "sh", title, *argv]
