"""`clusters add NAME`: from nothing to a profile that works, in one dialogue.

It logs in, looks at what the cluster has (`Api.describe`, `Api.cluster_info`), proposes, shows the
file, and keeps it when the user agrees. If it fails, it leaves no file behind.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from jupyter_slurm import containers
from jupyter_slurm.api import Api
from jupyter_slurm.cli import from_template
from jupyter_slurm.cli.command import Connect
from jupyter_slurm.cli.dialogue import Dialogue
from jupyter_slurm.client.login import TerminalAnswerer, log_in
from jupyter_slurm.commands.arguments import Arguments
from jupyter_slurm.errors import (
    ConfigError,
    ConnectionLostError,
    HostKeyError,
    JupyterSlurmError,
    LoginError,
    LoginNeededError,
    RequestError,
    TransportError,
)
from jupyter_slurm.profiles import save
from jupyter_slurm.profiles.save import Setting, toml_text
from jupyter_slurm.readable import duration, memory
from jupyter_slurm.views.connections import connected
from jupyter_slurm.wire import ClusterInfo, Description, Folder, Partition

_ADDRESS = re.compile(
    r"(?:(?P<user>[^@]+)@)?(?P<host>[^@:\[\]\s]+|\[[0-9a-fA-F:.]+\])(?::(?P<port>\d+))?"
)
_JOBS = ".jupyter-slurm/jobs"
_HERE = "this machine"


def add(args: Arguments, connect: Connect) -> int:
    """Add the cluster; return 1, and keep nothing, if the user does not agree."""
    save.check_new(args.name)
    talk = Dialogue(asks=not args.yes)
    if args.template is not None:
        return _add_from_template(args, talk, connect)
    way = _way(args, talk)
    api = connect()
    path = save.write_profile(args.name, way)
    kept = False
    try:
        try:
            _log_in(api, args.name, talk)
        except (LoginError, LoginNeededError, HostKeyError, ConnectionLostError):
            raise
        except TransportError as exc:
            gateway = () if args.yes else _gateway(way, talk, exc)
            if not gateway:
                raise
            way = {**way, "jump": gateway}
            save.write_profile(args.name, way)
            _log_in(api, args.name, talk)
        found, info = _look(api, args.name)
        _tell(talk, found, info)
        settings = {**way, **_chosen(args, talk, found, info)}
        talk.say(f"\n{path}:\n\n{toml_text(settings)}")
        if not talk.agreed("Keep this?"):
            talk.say("Nothing is kept.")
            return 1
        save.write_profile(args.name, settings)
        kept = True
    finally:
        if not kept:
            with suppress(JupyterSlurmError):  # there may be no connection
                api.disconnect(args.name)
            path.unlink(missing_ok=True)
    _make_default(api, args.name, talk)
    talk.say(f"`{args.name}` is there. To try it: jupyter slurm clusters test {args.name}")
    return 0


def _add_from_template(args: Arguments, talk: Dialogue, connect: Connect) -> int:
    if not from_template.add(args, talk):
        return 1
    _make_default(connect(), args.name, talk)
    return 0


# --- the way there ----------------------------------------------------------------------------


def _way(args: Arguments, talk: Dialogue) -> dict[str, Setting]:
    """Return host, user, port and jump hosts from the options; ask for a missing host."""
    given: str | None = args.host
    if given is None:
        if args.yes:
            raise RequestError("Which host?", hint=f"Give --host; `--host ''` is {_HERE}.")
        known = ssh_hosts()
        talk.say(
            "Where is the cluster's login node? A name of ~/.ssh/config or [user@]host[:port]; "
            f"nothing: {_HERE}."
        )
        given = talk.choice("Host", known, "", option="--host")
    commands: dict[str, Setting] = {"path": tuple(args.path), "env": _environment(args.env)}
    if not given:
        return commands
    match = _ADDRESS.fullmatch(given)
    if match is None:
        raise RequestError(f"--host: `{given}` is not [user@]host[:port].")
    port = args.port if args.port is not None else match["port"]
    way: dict[str, Setting] = {
        "host": match["host"].strip("[]"),
        "user": args.user or match["user"] or "",
        "jump": tuple(args.jump),
        **commands,
    }
    if port is not None:
        way["port"] = int(port)
    return way


def _environment(pairs: Sequence[str]) -> dict[str, str]:
    for pair in pairs:
        if not re.match(r"[A-Za-z_][A-Za-z0-9_]*=", pair):
            raise RequestError(f"--env: `{pair}` is not NAME=VALUE.")
    return dict(pair.split("=", 1) for pair in pairs)


def _gateway(way: Mapping[str, Setting], talk: Dialogue, exc: TransportError) -> tuple[str, ...]:
    """Return the jump hosts that the user names for a host out of reach; (): none."""
    if "host" not in way or way["jump"]:
        return ()
    talk.say(str(exc))
    talk.say(
        "Is it behind a gateway (ProxyJump)? A name of ~/.ssh/config or [user@]host[:port]; "
        "several with commas between, the outermost first; nothing: give up."
    )
    given = talk.text("Gateway", option="--jump")
    return tuple(word.strip() for word in given.split(",") if word.strip())


def _log_in(api: Api, name: str, talk: Dialogue) -> None:
    talk.say(connected(log_in(api, name, TerminalAnswerer(), secrets.token_hex(8))))


def _look(api: Api, name: str) -> tuple[Description, ClusterInfo]:
    """Return what the cluster has. ConfigError: it has no Slurm."""
    found = api.describe(name)
    if found.sbatch is None:
        raise ConfigError(
            "Slurm's commands are not found there.",
            hint="Is it the login node? `--path DIR` names the folder that they are in.",
        )
    return found, api.cluster_info(name)


# --- what there is ----------------------------------------------------------------------------


def _tell(talk: Dialogue, found: Description, info: ClusterInfo) -> None:
    accounting = "with" if info.accounting else "without"
    talk.say(f"Slurm {info.slurm_version} ({found.sbatch}), {accounting} accounting.")
    for partition in info.partitions:
        talk.say(f"  {_partition_text(partition)}")
    for what, names in (("Accounts", info.accounts), ("QOS", info.qos)):
        if names:
            talk.say(f"{what}: {', '.join(names)}")
    tools = [*found.runtimes, *(["environment modules"] if found.modules else [])]
    talk.say(f"Found on the login node: {', '.join(tools) or 'no container tool'}.")
    talk.say(f"Python there: {found.python or 'none that runs; the nodes may have one'}.")
    for folder in found.folders:
        talk.say(f"  {_folder_text(folder)}")


def _partition_text(partition: Partition) -> str:
    limit = "no time limit" if partition.limit_s is None else duration(partition.limit_s)
    types = f" ({', '.join(partition.gpu_types)})" if partition.gpu_types else ""
    gpus = f", {partition.gpus} GPUs{types}" if partition.gpus else ""
    down = "" if partition.up else ", down"
    star = "*" if partition.default else ""
    return f"{partition.name}{star}: {partition.nodes} nodes, {limit}{gpus}{down}"


def _folder_text(folder: Folder) -> str:
    free = f", {memory(folder.free_mib)} free" if folder.free_mib is not None else ""
    seen = "seen by every node" if folder.shared else "the nodes may not see it"
    write = "" if folder.writable else ", you cannot write there"
    return f"{folder.name} = {folder.path} ({folder.file_system}{free}; {seen}{write})"


# --- what is proposed -------------------------------------------------------------------------


def _chosen(
    args: Arguments, talk: Dialogue, found: Description, info: ClusterInfo
) -> Mapping[str, Setting]:
    """Ask for the settings other than the way, one by one, and propose a default for each."""
    runtimes = [name for name in containers.RUNTIMES if name in found.runtimes] + ["none"]
    runtime = args.runtime or talk.choice(
        "What runs containers", runtimes, _first(runtimes, "none"), option="--runtime"
    )
    containers.runtime_named(runtime)
    roots = list(_job_roots(found.folders))
    job_root = args.job_root or talk.choice(
        "Where jobs live (login node and nodes must see it)",
        roots,
        _first(roots, f"~/{_JOBS}"),
        option="--job-root",
    )
    return {
        "runtime": runtime,
        "job_root": job_root,
        "defaults": {
            key: value
            for key, value in (
                ("partition", _partition(args, talk, info.partitions)),
                ("account", _account(args, talk, info.accounts)),
            )
            if value
        },
    }


def _partition(args: Arguments, talk: Dialogue, partitions: Sequence[Partition]) -> str:
    """Return the partition from the options or the user; "" if Slurm has a default of its own."""
    if args.partition is not None or any(one.default for one in partitions):
        return args.partition or ""
    names = [one.name for one in partitions if one.up]
    return talk.choice("Partition for jobs that name none", names, _first(names, ""), option="")


def _account(args: Arguments, talk: Dialogue, accounts: Sequence[str]) -> str:
    if args.account is not None or len(accounts) < 2:
        return args.account or ""
    return talk.choice(
        "Account for jobs that name none (nothing: Slurm's default)",
        list(accounts),
        "",
        option="--account",
    )


def _job_roots(folders: Sequence[Folder]) -> Iterator[str]:
    """Yield folders for jobs, those that every node sees first, the home before others. Each is
    ours alone, since it is 0700."""
    writable = [folder for folder in folders if folder.writable]
    for folder in sorted(writable, key=lambda folder: not folder.shared):
        yield f"~/{_JOBS}" if folder.name == "$HOME" else f"{folder.path}/{_JOBS}"


def _first(found: Sequence[str], otherwise: str) -> str:
    return found[0] if found else otherwise


def _make_default(api: Api, name: str, talk: Dialogue) -> None:
    """Ask to make the cluster the default if another is; do so unasked if none is."""
    known = api.clusters()
    if len(known) < 2 or any(one.default and one.name == name for one in known):
        return
    default = next((one.name for one in known if one.default), None)
    instead = f" instead of `{default}`" if default else ""
    if default is None or talk.wanted(f"Shall jobs that name no cluster go there{instead}?"):
        save.set_default(name)


_DEEPEST = 8
"""How deep files include files; ssh itself stops at 16 (READCONF_MAX_DEPTH in readconf.c)."""


def ssh_hosts() -> list[str]:
    """Return the names that stand for one host each, in the file's order; [] without the file or
    without an `ssh` that can resolve them."""
    if not shutil.which("ssh"):
        return []
    # Connections look there too: transport/ssh_config/.
    file = os.environ.get("JUPYTER_SLURM_SSH_CONFIG") or Path.home() / ".ssh" / "config"
    return list(dict.fromkeys(_hosts(Path(file), 0)))


def _hosts(file: Path, depth: int) -> Iterator[str]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            keyword, *words = shlex.split(line.replace("=", " ", 1), comments=True) or [""]
        except ValueError:  # a quote is open; ssh would refuse the file
            continue
        if keyword.lower() == "host":
            yield from (word for word in words if not set(word) & set("*?!"))
        elif keyword.lower() == "include" and depth < _DEEPEST:
            for pattern in words:
                # Relative ones start in ~/.ssh (ssh_config(5)).
                start = Path.home() / ".ssh" / Path(pattern).expanduser()
                for path in sorted(Path("/").glob(str(start).lstrip("/"))):
                    yield from _hosts(path, depth + 1)
