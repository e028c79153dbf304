import pytest

from jupyter_slurm.slurm.diagnosis import diagnose

STEPD = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-21T10:00:00 DUE TO "


@pytest.mark.parametrize(
    ("state", "exit_code", "signal", "log", "code"),
    [
        ("OUT_OF_MEMORY", 0, 125, "", "out-of-memory"),
        ("FAILED", 0, 125, "", "out-of-memory"),
        ("FAILED", 137, None, "Detected 1 oom-kill event(s) in StepId=7.batch", "out-of-memory"),
        ("FAILED", 137, None, "Detected 1 oom_kill event in StepId=7.batch.", "out-of-memory"),
        ("FAILED", 1, None, "Job 7 exceeded memory limit (9 > 8), being killed", "out-of-memory"),
        ("FAILED", 1, None, "torch.cuda.OutOfMemoryError: CUDA out of memory.", "gpu-memory"),
        ("FAILED", 1, None, "DataLoader worker killed by signal: Bus error.", "shared-memory"),
        ("TIMEOUT", 0, 15, "", "time-limit"),
        ("FAILED", 143, None, f"{STEPD}TIME LIMIT ***", "time-limit"),
        ("NODE_FAIL", None, None, "", "node-failure"),
        ("PREEMPTED", None, None, "", "preempted"),
        ("CANCELLED", 0, 15, "", "cancelled"),
        ("DEADLINE", None, None, "", "deadline"),
        ("BOOT_FAIL", None, None, "", "boot-failure"),
        ("FAILED", 0, 53, "", "output-file"),
        ("FAILED", 125, None, "", "container-engine"),
        ("FAILED", 126, None, "", "not-executable"),
        ("FAILED", 127, None, "", "command-not-found"),
        ("FAILED", 255, None, "FATAL:   could not open image", "apptainer"),
        ("FAILED", 255, None, "", "start-failed"),
        ("FAILED", 1, None, "ch-run[12]: error: can't find /x", "charliecloud"),
        (
            "FAILED",
            1,
            None,
            "pyxis: failed to import docker image\npyxis: 401",
            "image-credentials",
        ),
        ("FAILED", 1, None, "pyxis: failed to import docker image", "image-import"),
        ("FAILED", 1, None, "curl: (6) Could not resolve host: nvcr.io", "no-network"),
        ("FAILED", 1, None, "OSError: [Errno 28] No space left on device", "disk-full"),
        ("FAILED", 1, None, "ModuleNotFoundError: No module named 'torch'", "python-module"),
        ("FAILED", 127, None, "bash: module: command not found", "module"),
        ("FAILED", 139, None, "", "signal"),
        ("FAILED", 0, 9, "", "signal"),
    ],
)
def test_cause_of_a_failure_is_found(
    state: str, exit_code: int | None, signal: int | None, log: str, code: str
) -> None:
    said = diagnose(state, exit_code, signal, log)
    assert said is not None
    assert said.code == code
    assert said.sentence
    assert said.advice


def test_slurms_verdict_outweighs_the_log() -> None:
    said = diagnose("TIMEOUT", 1, None, "ModuleNotFoundError: No module named 'x'")
    assert said is not None
    assert said.code == "time-limit"


def test_success_and_unknown_causes_have_no_diagnosis() -> None:
    assert diagnose("COMPLETED", 0, 0, "oom_kill ModuleNotFoundError: No module named") is None
    assert diagnose("FAILED", 3, None, "it just failed") is None
