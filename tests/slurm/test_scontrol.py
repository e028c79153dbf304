import pytest

from jupyter_slurm.slurm import scontrol
from tests.slurm.recorded import RELEASES, job_id, output, stderr


def job(release: str, case: str) -> scontrol.ControlRow:
    [row] = scontrol.parse_jobs(output(release, f"scontrol_{case}"))
    assert row.slurm_id == job_id(release, case)
    return row


each_release = pytest.mark.parametrize("release", RELEASES)


@each_release
def test_name_with_slurm_keys_is_parsed(release: str) -> None:
    row = job(release, "blank")
    assert row.name == "blank | pipe\nnewline = x  é✓ JobId=7 Reason=none"
    assert row.comment == "c1\nUserId=root(0) é"
    assert (row.fields["Reason"], row.state) == ("None", "COMPLETED")
    assert row.stdout == f"/home/alice/jobs/out-{row.slurm_id}.txt"
    assert row.fields["Command"].startswith("/home/alice/jobs/exit.sh")


@each_release
def test_running_gpu_job_is_parsed(release: str) -> None:
    row = job(release, "gpu")
    assert (row.state, row.fields["Partition"], row.fields["Account"]) == (
        "RUNNING", "gpu", "physics",
    )  # fmt: skip
    assert (row.cpus, row.nodelist) == (2, "node2")
    assert (row.limit_s, row.exit_code, row.requeues) == (3600, 0, 0)
    assert (row.tres["gres/gpu"], row.tres["mem"]) == (2, 500)
    assert row.end_s is not None


@pytest.mark.parametrize(
    ("case", "state", "code", "signal"),
    [
        ("done", "COMPLETED", 0, 0),
        ("exit137", "FAILED", 137, 0),
        ("kill9", "FAILED", 0, 9),
        ("cancelled", "CANCELLED", 0, 15),
        ("timeout", "TIMEOUT", 0, 15),
        ("steps", "COMPLETED", 0, 0),
    ],
)
@each_release
def test_end_of_a_job_is_parsed(
    release: str, case: str, state: str, code: int, signal: int
) -> None:
    row = job(release, case)
    assert (row.state, row.exit_code, row.exit_signal) == (state, code, signal)
    assert row.end_s is not None


@each_release
def test_waiting_job_has_no_nodes(release: str) -> None:
    row = job(release, "held")
    assert (row.state, row.fields["Reason"]) == ("PENDING", "JobHeldUser")
    assert (row.nodelist, row.comment) == (None, None)


@each_release
def test_configuration_is_parsed(release: str) -> None:
    config = scontrol.parse_config(output(release, "scontrol_config"))
    assert config["SLURM_VERSION"].startswith(release[:5])
    assert config["AccountingStorageType"] == "accounting_storage/slurmdbd"
    assert config["MinJobAge"] == "3000 sec"
    assert config["ClusterName"] == "alpha"
    assert {"KillWait", "MaxArraySize", "JobRequeue"} <= set(config)


@each_release
def test_unknown_job_is_not_a_failure(release: str) -> None:
    assert scontrol.is_unknown_job(stderr(release, "scontrol_unknown"))
    assert not scontrol.is_unknown_job("Unable to contact slurm controller (connect failure)")


def test_unrequested_gpus_of_exclusive_nodes_are_counted() -> None:
    told = (
        "JobId=7 JobName=x UserId=alice(1) GroupId=alice(1) MCS_label=N/A JOB_GRES=gpu:a100:4 "
        "Nodes=n[1-2] CPU_IDs=0-3 Mem=24104 GRES=gpu:a100:2(IDX:0-1) OverSubscribe=NO "
    )
    [row] = scontrol.parse_jobs(told + "Command=/x")
    assert (row.unasked_gpus("n2"), row.unasked_gpus("n3")) == (2, 0)
    [row] = scontrol.parse_jobs(told + "Command=/x TresPerNode=gres:gpu:1")
    assert row.unasked_gpus("n2") == 0
