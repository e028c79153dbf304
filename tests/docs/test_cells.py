"""The cells and commands of docs/, each page in its own notebook, on a real Slurm."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.plugin import SlurmCluster, running_cluster
from tests.docs.pages import ROOT, Block, Page, blocks, written
from tests.magics.kernel import Kernel, Reply, running_kernel
from tests.magics.test_real import agent_environment
from tests.ssh.waiting import wait_until

_RUN = ("python", "console")
_FAILS = re.compile(r"^\w+(Error|Failed)\b", re.MULTILINE)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
PAGES = [
    page
    for page in written()
    if any(one.language in _RUN and one.not_run is None for one in page.blocks())
]


@dataclass(frozen=True)
class Place:
    """A cluster like that of `jupyter slurm up`, and the environment of its agent."""

    cluster: SlurmCluster
    env: dict[str, str]

    def is_idle(self) -> bool:
        return not self.cluster.run("squeue", "--noheader").stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, demo_image: Path) -> Iterator[Place]:
    home = tmp_path_factory.mktemp("cluster")
    with running_cluster(home, nodes=1, cpus=4, gpus=2, memory_mib=8192) as cluster:
        alias = [sys.executable, str(ROOT / "examples" / "alias.py"), "local", str(demo_image)]
        cluster.run(*alias)
        with agent_environment(cluster) as env:
            yield Place(cluster, env)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_of_a_page_produce_the_shown_output(
    page: Page, place: Place, tmp_path: Path
) -> None:
    wait_until(place.is_idle)  # the jobs of the previous page have ended
    env = place.env | {"JPY_SESSION_NAME": f"{tmp_path}/page.ipynb"}
    with running_kernel(env, tmp_path) as kernel:
        every = list(page.blocks())
        for at, block in enumerate(every):
            if block.not_run is not None:
                continue
            after = every[at + 1] if at + 1 < len(every) else None
            if block.language == "python":
                shown = after.text if after and after.language == "text" else ""
                _run_cell(kernel, block, shown, page)
            elif block.language == "console":
                _run_commands(block, env, tmp_path, page)


def _run_cell(kernel: Kernel, block: Block, shown: str, page: Page) -> None:
    reply = kernel.run(block.text)
    where = f"{page.name}:{block.line}"
    said = _said(reply)
    assert (reply.content["status"] == "error") is bool(_FAILS.search(shown)), f"{where}\n{said}"
    _compare(shown, said, where)


def _said(reply: Reply) -> str:
    """Return all text under the cell."""
    parts = []
    for message in reply.messages:
        content = message["content"]
        if message["msg_type"] == "error":
            parts.append("\n".join(content["traceback"]))
        elif message["msg_type"] == "stream":
            parts.append(content["text"])
        else:
            parts.append(f"{content.get('data', {}).get('text/plain', '')}\n")
    return _ANSI.sub("", "".join(parts))


def _run_commands(block: Block, env: dict[str, str], folder: Path, page: Page) -> None:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        done = subprocess.run(
            ["sh", "-c", command],
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        said = done.stdout + done.stderr
        where = f"{page.name}:{block.line}"
        assert done.returncode == 0, f"{where}\n{said}"
        _compare(shown, said, where)


def _compare(shown: str, said: str, where: str) -> None:
    """Assert that each shown line is a line of the output."""
    lines = [line.rstrip() for line in said.splitlines()]
    for wanted in filter(None, map(str.rstrip, shown.splitlines())):
        pattern = ".*".join(map(re.escape, wanted.split("…")))
        assert any(re.fullmatch(pattern, line) for line in lines), f"{where}: {wanted}\n{said}"


def test_readme_has_the_cell_and_output_of_the_first_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    cells = [one.text for one in blocks(readme) if one.language == "python"]
    page = (ROOT / "docs" / "start" / "no-cluster.md").read_text(encoding="utf-8")
    assert cells
    assert set(cells) <= {one.text for one in blocks(page)}
