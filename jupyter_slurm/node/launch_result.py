"""The result of a job, merged from the results of its ranks.

Runs on the first node, or on another node if the first is lost; Python 3.6 and later, standard
library only. The job's key signs each `result.N.R.json` and the merged result. This module treats
results as data and does not run code from them.
"""

import contextlib
import hmac
import json
import os
import subprocess
import time

import launch_step
import runner

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List, Optional, Sequence

    import launch

UNAVAILABLE = 69
"""Exit code EX_UNAVAILABLE of sysexits.h."""
REPORT_S = 5.0
"""Time for another node to report the loss of the first node."""


def why(node: "launch.Node") -> str:
    """Return a message about the failure of a node's program."""
    if node.is_lost:
        return loss([node.name])
    lines = node.tail.strip().splitlines()
    of_containers = [one for one in lines if launch_step.OF_CONTAINERS.search(one)]
    words = "".join(of_containers[:1] or lines[-1:])
    if words.startswith(launch_step.OURS):
        return "On %s: %s" % (node.name, words[len(launch_step.OURS) :])
    told = "On %s the program ended with exit code %d" % (node.name, node.code or 0)
    return "%s: %s" % (told, words) if words else told + "."


def loss(names: "Sequence[str]") -> str:
    """Return a message about lost nodes."""
    were = "were" if len(names) > 1 else "was"
    return "%s %s lost while the job ran." % (launch_step.named(names), were)


def lose_first(job_dir: str, attempt: str, plan: "Dict[str, Any]") -> None:
    """Report the loss of the first node, where the job's script ran, and end the job. Otherwise
    Slurm would notice the loss only after SlurmdTimeout. All other nodes call this function, but
    only one of them acts."""
    try:
        os.mkdir(os.path.join(job_dir, "claim.%s" % attempt, "lost"))
    except OSError:
        time.sleep(REPORT_S)  # a rank of MPI that ends here would end the node that acts
        return
    end_engine(job_dir, attempt)
    with open(os.path.join(job_dir, "world.%s.json" % attempt), encoding="utf-8") as file:
        world = json.load(file)
    first, ranks = str(world["nodes"][0]["name"]), int(world["ranks"])
    with open(os.path.join(job_dir, "log.%s" % attempt), "ab", 0) as log:
        log.write(("%s%s\n" % (launch_step.OURS, launch_step.gone(first))).encode("utf-8"))
    if plan["has_requeue"]:
        return  # Slurm runs the job again
    if plan["is_ranked"] and plan["has_result"]:
        found = read_results(job_dir, attempt, ranks, 0.0)
        lose(job_dir, attempt, ranks, found, loss([first]), UNAVAILABLE)
    elif plan["has_result"]:
        fail(job_dir, attempt, "LaunchError", loss([first]), UNAVAILABLE)
    ended = {"exit_code": UNAVAILABLE, "signal": "", "time_s": int(time.time())}
    runner.put(os.path.join(job_dir, "exit.%s.json" % attempt), json.dumps(ended).encode("ascii"))
    null = subprocess.DEVNULL
    with contextlib.suppress(OSError):  # otherwise Slurm keeps the other nodes for the job
        subprocess.call(
            ["scancel", os.environ["SLURM_JOB_ID"]], stdin=null, stdout=null, stderr=null
        )


def end_engine(job_dir: str, attempt: str) -> None:
    """Write engine.N.json, so that Ray and Dask end on the other nodes. After a signal,
    launch_engine.py waits for this file."""
    over = json.dumps({"over": True}).encode("ascii")
    runner.put(os.path.join(job_dir, "engine.%s.json" % attempt), over)


def fail(
    job_dir: str,
    attempt: str,
    name: str,
    sentence: str,
    code: int,
    ranks: int = 0,
    behind: "Sequence[str]" = (),
) -> "Dict[str, Any]":
    """Write the output and result for code that could not run. Return the result. `behind` contains
    the lines that follow the sentence in the traceback."""
    now_s = time.time()
    lines = ["%s: %s" % (name, sentence)] + list(behind)
    record = {"type": "error", "ename": name, "evalue": sentence, "traceback": lines}
    output = runner.Output(os.path.join(job_dir, "output.%s.jsonl" % attempt))
    output.write(runner.to_line(record))
    result = runner.outcome(None, code << 8)
    result.update(status="error", ename=name, evalue=sentence, traceback=lines)
    result.update(started_s=now_s, ended_s=now_s, peak_rss_mib=0.0, cpu_s=0.0, ranks=ranks)
    signer = runner.job_signer(job_dir)
    signer.write(os.path.join(job_dir, "result.%s.json" % attempt), result)
    return result


def merge(
    job_dir: str,
    attempt: str,
    ranks: int,
    found: "Dict[int, Dict[str, Any]]",
    lost: "Optional[str]",
    code: int,
    signer: "Optional[runner.Signer]" = None,
) -> "Dict[str, Any]":
    """Write and return the job's result: the result of rank 0 if all succeeded, otherwise the
    result of the first failed rank. `found` contains the results by rank, and `lost` a failure that
    the ranks have not reported. `signer` is the signer of a session's cell."""
    failed = [rank for rank in sorted(found) if found[rank]["status"] in ("error", "killed")]
    stopped = [rank for rank in sorted(found) if found[rank]["status"] == "interrupted"]
    missing = [rank for rank in range(ranks) if rank not in found]
    if not failed and (missing or (code and not stopped)):
        told = "Missing results of ranks: %s." % listed(missing)
        why = lost or (told if missing else "The ranks ended with exit code %d." % code)
        return fail(job_dir, attempt, "RankLost", why, code or 1, ranks)
    if failed:
        result = first_failure(ranks, found, failed)
        record = {name: result[name] for name in ("ename", "evalue", "traceback")}
        output = runner.Output(os.path.join(job_dir, "output.%s.jsonl" % attempt))
        output.write(runner.to_line(dict(record, type="error")))
    else:
        result = dict(found[stopped[0] if stopped else 0])
        gathered = [found[rank].get("gathered") for rank in range(ranks)]
        if not stopped and any(gathered):
            result["gathered"] = gathered
    result["ranks"] = ranks
    result["peak_rss_mib"] = max(one["peak_rss_mib"] for one in found.values())
    runner.add_peak(result, job_dir, attempt)
    result["cpu_s"] = round(sum(one["cpu_s"] for one in found.values()), 3)
    signer = signer or runner.job_signer(job_dir)
    signer.write(os.path.join(job_dir, "result.%s.json" % attempt), result)
    return result


def lose(
    job_dir: str,
    attempt: str,
    ranks: int,
    found: "Dict[int, Dict[str, Any]]",
    sentence: str,
    code: int,
) -> "Dict[str, Any]":
    """Write and return the result of a job that lost a node. `sentence` names the node. In the
    traceback, an error of a rank follows `sentence`. Ranks that a signal ended do not count."""
    raised = [rank for rank in sorted(found) if found[rank]["status"] == "error"]
    behind = first_failure(ranks, found, raised)["traceback"] if raised else []
    return fail(job_dir, attempt, "RankLost", sentence, code or 1, ranks, behind)


def first_failure(
    ranks: int, found: "Dict[int, Dict[str, Any]]", failed: "List[int]"
) -> "Dict[str, Any]":
    """Return the result of the first rank that failed. Its traceback names all ranks that failed in
    the same way."""
    first = min(failed, key=lambda rank: (found[rank]["ended_s"], rank))
    same = [rank for rank in failed if is_same(found[rank], found[first])]
    heading = "On rank%s %s of %d:" % ("" if len(same) == 1 else "s", listed(same), ranks)
    traceback = [heading] + found[first]["traceback"]
    return dict(found[first], traceback=traceback)


def is_same(one: "Dict[str, Any]", other: "Dict[str, Any]") -> bool:
    return all(one[name] == other[name] for name in ("ename", "traceback", "signal"))


def read_results(
    job_dir: str, attempt: str, ranks: int, patience_s: float
) -> "Dict[int, Dict[str, Any]]":
    """Return the results with a valid signature, by rank. Wait for results that have not appeared
    yet."""
    signer = runner.job_signer(job_dir)
    found: "Dict[int, Dict[str, Any]]" = {}
    deadline_s = time.monotonic() + patience_s
    while True:
        for rank in range(ranks):
            if rank not in found:
                path = os.path.join(job_dir, "result.%s.%d.json" % (attempt, rank))
                result = read_signed(path, signer)
                if result is not None:
                    found[rank] = result
        if len(found) == ranks or time.monotonic() > deadline_s:
            return found
        os.listdir(job_dir)  # refreshes the NFS cache
        time.sleep(0.1)


def read_signed(path: str, signer: runner.Signer) -> "Optional[Dict[str, Any]]":
    try:
        with open(path, "rb") as file:
            signature, _, body = file.read().partition(b"\n")
    except OSError:
        return None
    if not hmac.compare_digest(signature, signer.sign(body).encode("ascii")):
        return None
    result = json.loads(body.decode("ascii"))
    return result if isinstance(result, dict) else None


def listed(numbers: "List[int]") -> str:
    """Format sorted numbers, for example as `0-3,7`."""
    runs: "List[List[int]]" = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join("%d" % a if a == b else "%d-%d" % (a, b) for a, b in runs)
