"""The launcher of a multi-node job: node lists, and results of ranks."""

from __future__ import annotations

import hmac
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_slurm.jobs.outcome.result import parse_result

NODE = Path(__file__).parents[2] / "jupyter_slurm" / "node"
KEY = b"0" * 64


@pytest.fixture(scope="module", autouse=True)
def _node_folder() -> Any:
    sys.path.insert(0, str(NODE))
    yield
    sys.path.remove(str(NODE))


@pytest.fixture(scope="module")
def steps() -> Any:
    import launch_step

    return launch_step


@pytest.fixture(scope="module")
def results() -> Any:
    import launch_result

    return launch_result


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10],gpu", ["n08", "n09", "n10", "gpu"]),
        ("a[1,3]b[1-2],c", ["a1b1", "a1b2", "a3b1", "a3b2", "c"]),
        ("", []),
    ],
)
def test_node_lists_are_expanded(steps: Any, listed: str, names: list[str]) -> None:
    assert steps.expand(listed) == names


def test_rank_numbers_are_formatted_as_ranges(results: Any) -> None:
    assert results.listed([0, 1, 2, 5]) == "0-2,5"
    assert results.listed([7]) == "7"
    assert results.listed([]) == ""


class Ranks:
    """A job's folder with its ranks' results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "key").write_bytes(KEY)

    def put(self, rank: int, key: bytes = KEY, **changes: Any) -> None:
        result = {
            "status": "ok",
            "exit_code": 0,
            "ename": None,
            "evalue": None,
            "traceback": [],
            "signal": None,
            "interrupted_by": None,
            "variables": None,
            "started_s": 1.0,
            "ended_s": 2.0,
            "peak_rss_mib": 10.0 + rank,
            "cpu_s": 1.0,
            "lost_output_bytes": 0,
            "python": [3, 11, 2],
        }
        body = json.dumps({**result, **changes}).encode() + b"\n"
        signature = hmac.new(key, body, "sha256").hexdigest().encode()
        (self.folder / f"result.0.{rank}.json").write_bytes(signature + b"\n" + body)

    def fail(self, rank: int, name: str = "ValueError", **changes: Any) -> None:
        told = {"ename": name, "evalue": "bad", "traceback": [f"{name}: bad"]}
        self.put(rank, **{"status": "error", "exit_code": 1, **told, **changes})

    def merged(self, count: int, lost: str | None = None, code: int = 0) -> tuple[int, Any]:
        return self._made("merge", count, lost, code)

    def ended_by(self, lost: str, count: int) -> tuple[int, Any]:
        return self._made("lose", count, lost, 69)

    def _made(self, function: str, count: int, lost: str | None, code: int) -> tuple[int, Any]:
        where = f"{str(self.folder)!r}, '0', {count}"
        words = f"from launch_result import *; found = read_results({where}, 0)\n"
        words += f"print({function}({where}, found, {lost!r}, {code})['exit_code'])"
        done = subprocess.run(
            [sys.executable, "-c", words], cwd=NODE, capture_output=True, text=True, check=True
        )
        result = parse_result((self.folder / "result.0.json").read_bytes(), KEY)
        return int(done.stdout), result

    @property
    def shown(self) -> list[Any]:
        path = self.folder / "output.0.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(tmp_path)


def test_job_has_the_result_of_rank_0_if_all_ranks_succeed(ranks: Ranks) -> None:
    for rank in range(3):
        ranks.put(rank)
    code, result = ranks.merged(3)
    assert (code, result.status, result.ranks) == (0, "ok", 3)
    assert result.peak_rss_mib == 12.0
    assert result.cpu_s == 3.0
    assert ranks.shown == []


def test_peak_memory_is_the_highest_sample_of_any_node(ranks: Ranks) -> None:
    """Ranks share a node. Each rank measures only itself."""
    for rank in range(2):
        ranks.put(rank)
    (ranks.folder / "usage.0.jsonl").write_text('{"memory_mib": 15.5}\nhalf a l\n')
    (ranks.folder / "usage.0.1.jsonl").write_text('{"memory_mib": 44.5}\n{"memory_mib": 20}\n')
    # the measurement of another attempt
    (ranks.folder / "usage.1.jsonl").write_text('{"memory_mib": 90}\n')
    assert ranks.merged(2)[1].peak_rss_mib == 44.5


def test_common_error_is_shown_once_with_its_ranks(ranks: Ranks) -> None:
    for rank in range(4):
        ranks.fail(rank, ended_s=3.0 - rank)
    code, result = ranks.merged(4)
    assert (code, result.ename) == (1, "ValueError")
    [shown] = ranks.shown
    assert shown["traceback"] == ["On ranks 0-3 of 4:", "ValueError: bad"]


def test_job_fails_with_the_first_failure(ranks: Ranks) -> None:
    ranks.put(0, status="interrupted", exit_code=143, ename="KeyboardInterrupt", evalue="")
    ranks.fail(1, ended_s=5.0, name="OSError")
    ranks.fail(2, ended_s=4.0)
    _, result = ranks.merged(3)
    assert result.ename == "ValueError"
    assert result.traceback[0] == "On rank 2 of 3:"


def test_missing_result_of_a_rank_is_an_error(ranks: Ranks) -> None:
    ranks.put(0)
    code, result = ranks.merged(2, "n2 was lost while the job ran.", 69)
    assert (code, result.status, result.ename) == (69, "error", "RankLost")
    assert result.evalue == "n2 was lost while the job ran."


LOST = "n2 was lost while the job ran."


def test_lost_node_fails_the_job(ranks: Ranks) -> None:
    """The node's ranks may have reported their end before."""
    ranks.put(0, status="interrupted", exit_code=143, ename="KeyboardInterrupt", evalue="")
    ranks.put(1, status="killed", exit_code=137, ename="SIGKILL", evalue="ended", signal=9)
    code, result = ranks.ended_by(LOST, 2)
    assert (code, result.status, result.ename, result.ranks) == (69, "error", "RankLost", 2)
    assert (result.evalue, result.traceback) == (LOST, (f"RankLost: {LOST}",))
    assert [one["evalue"] for one in ranks.shown] == [LOST]


def test_result_with_a_wrong_signature_is_ignored(ranks: Ranks) -> None:
    ranks.put(0)
    ranks.put(1, key=b"another")
    code, result = ranks.merged(2)
    assert (code, result.evalue) == (1, "Missing results of ranks: 1.")
