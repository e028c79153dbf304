"""Ten simultaneous attacks by jobs and clusters on the agent. It stays within its memory limit and
reports each attack. A job on another cluster is not affected."""

from __future__ import annotations

import re
import socket
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from jupyter_slurm.agent.launch import COMMAND
from jupyter_slurm.client import AgentClient
from jupyter_slurm.errors import JupyterSlurmError, TooMuchError
from jupyter_slurm.wire import Job, JobSpec, Stream, TransferState
from tests.agent.home import AgentHome
from tests.cluster.plugin import SlurmCluster
from tests.jobs.conftest import QUICK, spec
from tests.ssh.profile import SshSlurm, write_profile

MIB = 1 << 20
MOST_MIB = 300
"""The agent's memory limit."""
LINE_MIB = 100
"""Size of an output line that is too long. The agent must read the line to skip it."""
ENDS_S = 200.0

HERE = """\
import os, sys, time
folder = os.path.dirname(sys.modules["runner_cell"].__file__)
def put(name, data, mode="wb"):
    with open(folder + "/" + name, mode) as file:
        file.write(data)
def instead(name, make):
    path = folder + "/" + name
    if os.path.lexists(path):
        os.unlink(path)
    make(path)
def end_the_runner():
    os.kill(os.getppid(), 9)
    time.sleep(60)
"""
"""Code at the start of each cell. It finds the job's folder."""

CELLS = {
    "a line without end": """
with open(folder + "/output.0.jsonl", "ab") as file:
    for _ in range(LINE_MIB):
        file.write(b"x" * (1 << 20))
    file.write(b"\\n")
print("after it")
""",
    "output without a newline": """
for _ in range(80):
    sys.stdout.write("without end " * 100_000)
""",
    "nested JSON": """
nested = b'{"type":"display_data","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}\\n"
for name in ("output.0.jsonl", "usage.0.jsonl", "lab.0.jsonl"):
    put(name, nested, "ab")
many = b'{"type":"display_data","data":{"a":[' + b"[]," * 5_000_000 + b"[]]}}\\n"
put("output.0.jsonl", many, "ab")
""",
    "a result of a gigabyte": """
instead("result.0.json", lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 1 << 30))
end_the_runner()
""",
    "a device for output": """
for name in ("output.0.jsonl", "log.0", "result.0.json", "usage.0.jsonl"):
    instead(name, lambda path: os.symlink("/dev/zero", path))
end_the_runner()
""",
    "garbage": """
import random
noise = random.Random(0).randbytes(1 << 20)
for name in ("output.0.jsonl", "usage.0.jsonl"):
    put(name, noise * 4 + b"\\n" * 100_000, "ab")
put("started.0.json", noise * 20)
put("result.0.json", noise)
end_the_runner()
""",
}
FIND = """\
import sys
if "-maxdepth" not in sys.argv:
    for number in range(1_000_000):
        sys.stdout.write("\\0".join(("f", "644", "0", "1.0", f"./{number}", "", "")))
"""
"""The output of the login node's find for a folder of a million files."""

RELAY = b"""#!/bin/sh
case $* in
*relay.py*)
  for word do first=$word; done
  printf %s "$first"
  head -c 100 >/dev/null
  printf '1 a b\\nD\\377\\377\\377\\377\\000\\000\\000\\001'
  exec head -c 2000000000 /dev/zero ;;
esac
exec PYTHON "$@"
"""
"""The node's Python. It turns hostile when it starts the relay."""


@dataclass
class There:
    api: AgentClient
    shared: Path
    """The agent, and a folder that it shares with the jobs."""

    def submit(self, asked: JobSpec, cluster: str) -> str:
        return self.api.submit(replace(asked, cluster=cluster)).id

    def followed(self, job_id: str) -> tuple[Job, str]:
        """Follow a job as a notebook does. Return the job and its output."""
        cursor, shown, end = "", "", False
        while not end:
            chunk = self.api.logs(job_id, cursor, wait_s=10, budget_bytes=100_000)
            cursor, end = chunk.cursor, chunk.end
            texts = [output.text for output in chunk.outputs if isinstance(output, Stream)]
            shown = (shown + "".join(texts))[-1_000_000:]
        return self.api.job(job_id), shown

    def peak_mib(self) -> float:
        status = Path(f"/proc/{self.api.status().pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024


@pytest.fixture
def there(
    agent_home: AgentHome, ssh_slurm: SshSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[There]:
    """Yield an agent with three clusters over SSH: `hostile`, `friendly`, and `flood` with a
    hostile Slurm."""
    config = tmp_path / "config"
    python = tmp_path / "python3"
    python.write_bytes(RELAY.replace(b"PYTHON", sys.executable.encode()))
    python.chmod(0o755)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, stream in (("squeue", 1), ("sinfo", 2)):
        (programs / name).write_text(f"#!/bin/sh\nexec cat /dev/zero >&{stream}\n")
        (programs / name).chmod(0o755)
    (programs / "find").write_text(f"#!{sys.executable}\n{FIND}")
    (programs / "find").chmod(0o755)
    settings = profile_of(ssh_slurm.cluster) | {
        "host": ssh_slurm.sshd.host,
        "port": ssh_slurm.sshd.port,
        "user": ssh_slurm.sshd.user,
    }
    for variable, text in ssh_slurm.env.items():
        monkeypatch.setenv(variable, text)
    settings |= QUICK
    path = settings.get("path", [])
    assert isinstance(path, list)
    for name, changes in (
        ("hostile", {"python": str(python), "job_root": str(tmp_path / "jobs")}),
        ("friendly", {"job_root": str(tmp_path / "friends")}),
        ("flood", {"path": [str(programs), *path], "job_root": str(tmp_path / "flood")}),
    ):
        write_profile(config, name, settings | changes)
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(config))
    api = AgentClient(agent_home.socket, COMMAND)
    yield There(api, tmp_path)
    api.close()


def profile_of(cluster: SlurmCluster) -> dict[str, object]:
    told = tomllib.loads(cluster.profile_path.read_text(encoding="utf-8"))
    return {name: text for name, text in told.items() if name not in ("origin", "default")}


def test_agent_survives_ten_hostile_jobs_at_once(there: There) -> None:
    api = there.api
    for job_id in [there.submit(spec("print('warm')"), "friendly") for _ in range(2)]:
        there.followed(job_id)
    begin = f"LINE_MIB = {LINE_MIB}\n{HERE}"
    hostile = {what: there.submit(spec(begin + code), "hostile") for what, code in CELLS.items()}
    relay = there.submit(spec("import time; time.sleep(1000)"), "hostile")
    with ThreadPoolExecutor(16) as pool:
        following = {what: pool.submit(there.followed, id_) for what, id_ in hostile.items()}
        pulled = pool.submit(pull, there)
        visited = pool.submit(visit, there, relay)
        floods = [pool.submit(flooded, there, call) for call in ("queue", "nodes")]
        friends = [pool.submit(friend, there, number) for number in range(4)]
        assert [one.result(ENDS_S) for one in friends] == [f"{n}\n" for n in range(4)]
        shown = {what: one.result(ENDS_S) for what, one in following.items()}
        words = {
            "files": pulled.result(ENDS_S),
            "relay": visited.result(ENDS_S),
            **{f"flood {n}": one.result(ENDS_S) for n, one in enumerate(floods)},
        }
    results = {what: result(there, id_) for what, id_ in hostile.items()}
    line = shown["a line without end"][1]
    assert "[Line longer than 16.8 MB; the rest is not shown.]" in line
    # The runner's first record may come in the middle of the attack's output.
    left_out = re.findall(r"\[End of the line: ([0-9.]+) MB left out.\]", line)
    assert sum(map(float, left_out)) > 0.8 * LINE_MIB
    assert line.endswith("after it\n")
    assert "is a pipe, a device or a folder, not a file" in shown["a device for output"][1]
    assert all(job.state.final for job, _ in shown.values())
    assert "has more than 250,000 files" in words["files"]
    assert "invalid data" in words["relay"]
    assert "`squeue` printed more than" in words["flood 0"]
    assert "`sinfo` printed more than" in words["flood 1"]
    assert "is larger than 4.2 MB" in results["a result of a gigabyte"]
    assert "a pipe, a device or a folder" in results["a device for output"]
    assert "is incomplete" in results["garbage"]
    assert there.peak_mib() < MOST_MIB
    api.cancel(relay)


def friend(there: There, number: int) -> str:
    _, text = there.followed(there.submit(spec(f"print({number})"), "friendly"))
    return text


def pull(there: There) -> str:
    transfer = there.api.pull(str(there.shared), str(there.shared / "here"), "flood")
    while transfer.state is TransferState.RUNNING:
        transfer = there.api.transfer(transfer.id, wait_s=10)
    assert transfer.problem is not None
    return str(transfer.problem.message)


def visit(there: There, job_id: str) -> str:
    """Return the error of a tunnel through the node's relay."""
    cursor = ""
    while there.api.job(job_id).started_s is None:
        cursor = there.api.changes(cursor, 10).cursor
    tunnel = there.api.forward("127.0.0.1", 9, "hostile", job_id)
    while True:
        address = ("127.0.0.1", tunnel.local_port)
        with suppress(ConnectionError), socket.create_connection(address) as sock:
            sock.recv(1)
        (now,) = (one for one in there.api.tunnels() if one.id == tunnel.id)
        if now.problem is not None and "relay" in str(now.problem.message):
            return str(now.problem.message)


def flooded(there: There, call: str) -> str:
    argv = {"queue": ["squeue"], "nodes": ["sinfo"]}[call]
    with pytest.raises(TooMuchError) as raised:
        there.api.command(argv, "flood")
    return str(raised.value)


def result(there: There, job_id: str) -> str:
    try:
        return there.api.result(job_id).status
    except JupyterSlurmError as exc:
        return str(exc)
