import pytest

from jupyter_slurm.slurm.diagnosis import diagnose
from jupyter_slurm.slurm.states import STATES

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
def test_a_cause_is_found(
    state: str, exit_code: int | None, signal: int | None, log: str, code: str
) -> None:
    said = diagnose(state, exit_code, signal, log)
    assert said is not None
    assert said.code == code
    assert said.sentence
    assert said.advice


@pytest.mark.parametrize(
    ("signal", "sentence"),
    [
        (6, "It gave up by itself: it called abort (SIGABRT)."),
        (11, "It crashed with a segmentation fault (SIGSEGV)."),
    ],
)
def test_a_signal_is_named_in_one_sentence(signal: int, sentence: str) -> None:
    for said in (diagnose("FAILED", 128 + signal, None, ""), diagnose("FAILED", 0, signal, "")):
        assert said is not None
        assert str(said.sentence) == sentence


def test_slurms_verdict_outweighs_the_log() -> None:
    said = diagnose("TIMEOUT", 1, None, "ModuleNotFoundError: No module named 'x'")
    assert said is not None
    assert said.code == "time-limit"


def test_nothing_wrong_or_nothing_to_see_is_none() -> None:
    assert diagnose("COMPLETED", 0, 0, "oom_kill ModuleNotFoundError: No module named") is None
    assert diagnose("FAILED", 3, None, "it just failed") is None


@pytest.mark.parametrize(
    ("exit_code", "name"), [(134, "SIGABRT"), (137, "SIGKILL"), (143, "SIGTERM"), (138, "SIGUSR1")]
)
def test_an_exit_code_over_128_names_its_signal(exit_code: int, name: str) -> None:
    said = diagnose("FAILED", exit_code, None, "")
    assert said is not None
    assert name in str(said.sentence)


def test_a_signal_without_a_name_is_told_by_its_number() -> None:
    said = diagnose("FAILED", 0, 63, "")
    assert said is not None
    assert "63" in str(said.sentence)


@pytest.mark.parametrize("state", STATES)
def test_any_state_can_be_asked_about(state: str) -> None:
    diagnose(state, None, None, "")
