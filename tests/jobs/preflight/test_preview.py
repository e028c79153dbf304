"""Previews and checks before a submission, on the real Slurm."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from jupyter_slurm.errors import CodeError, SubmitError
from jupyter_slurm.slurm.options import parse_options
from jupyter_slurm.wire import JobKind, JobState
from tests.cluster.plugin import SlurmCluster, running_cluster
from tests.cluster.started import started
from tests.jobs.conftest import Site, over_ssh, spec
from tests.ssh.sshd import Sshd

PARTITIONS = (
    "PartitionName=gpu Nodes=ALL MaxTime=1:00:00 DefaultTime=10:00 MaxNodes=1 "
    "OverSubscribe=EXCLUSIVE",
    "PartitionName=endless Nodes=n1 MaxTime=UNLIMITED AllowAccounts=physics",
    "EnforcePartLimits=ALL",
    "AccountingStorageEnforce=associations,limits,qos",
)


def commands(site: Site) -> dict[str, int]:
    """Return the count of each Slurm command, except the watcher's."""
    counts = site.service.status().commands
    return {name: count for name, count in counts.items() if "squeue" not in name}


@pytest.fixture(scope="module")
def strict_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Yield a cluster that enforces its limits."""
    begin = partial(
        running_cluster,
        tmp_path_factory.mktemp("cluster"),
        nodes=2,
        gpus=4,
        cpus=8,
        memory_mib=16384,
        accounting=True,
        extra_conf=PARTITIONS,
    )
    with ExitStack() as stack:
        cluster = started("A strict cluster", lambda: stack.enter_context(begin()))
        short = "short MaxWall=20 flags=DenyOnLimit"
        cluster.run("sacctmgr", "-i", "add", "qos", *short.split())
        user = getpass.getuser()
        cluster.run("sacctmgr", "-i", "modify", "user", user, "set", "qos+=short")
        yield cluster


@pytest.fixture
def strict(
    strict_cluster: SlurmCluster,
    way: Sshd | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    site = Site(strict_cluster, tmp_path, monkeypatch, sshd=way)
    yield site
    site.service.close()


def test_partitions_and_qos_are_read(strict: Site) -> None:
    info = strict.service.cluster_info()
    known = {one.name: one for one in info.partitions}
    gpu = known["gpu"]
    assert (gpu.cpus, gpu.memory_mib, gpu.gpus_per_node) == (8, 16384, 4)
    assert (gpu.limit_s, gpu.default_time_s, gpu.max_nodes, gpu.exclusive) == (3600, 600, 1, True)
    assert gpu.gpus_by_type == {"a100": (8, 8)}
    assert known["endless"].allow_accounts == ("physics",)
    assert known["debug"].default
    assert "short" in info.qos
    assert info.reservations == ()


def test_preview_shows_warnings_the_cost_and_slurms_refusal(strict: Site) -> None:
    options = {"partition": "gpu", "gres": "gpu:5", "time": "02:00:00"}
    preview = strict.service.preview(spec("1", options=options))
    assert {check.option for check in preview.checks if check.ok is None} >= {"time", "gpus"}
    assert [check.ok for check in preview.checks].count(False) == 1
    assert preview.start_estimate_s is None
    cost = preview.cost
    assert cost is not None
    assert (cost.limit_s, cost.node_hours, cost.cpu_hours) == (3600, 1, 8)


def test_preview_lists_variables_without_values(strict: Site) -> None:
    cell = strict.service.preview(spec("1", env={"TOKEN": "s3cret"}, modules=("gcc/7.4",)))
    assert " -uB " in cell.script
    assert cell.variables == ("TOKEN",)
    assert "s3cret" not in repr(cell)
    script = spec("#!/bin/sh\n#SBATCH -p gpu -t 9:00:00\ntrue\n", kind=JobKind.SCRIPT)
    preview = strict.service.preview(script)
    assert preview.variables == ()
    assert "time" in [check.option for check in preview.checks]


def test_syntax_error_is_rejected_before_submission(site: Site) -> None:
    wrong = spec("x = [1]\nfor y in x\n    print(y)")
    (check,) = (one for one in site.service.preview(wrong).checks if one.ok is False)
    sentence = "Line 2 of the code is not valid Python: expected ':'."
    assert (str(check.sentence), check.option) == (sentence, "code")
    with pytest.raises(CodeError) as caught:
        site.service.submit(wrong)
    assert (str(caught.value.message), caught.value.option) == (sentence, "code")
    assert site.service.jobs() == []


def test_directives_that_sbatch_ignores_are_reported(site: Site) -> None:
    late = spec("#!/bin/sh\ntrue\n#SBATCH --time=1\n", kind=JobKind.SCRIPT)
    (check,) = (one for one in site.service.preview(late).checks if one.option == "code")
    assert (check.ok, "#SBATCH --time=1" in str(check.sentence)) == (None, True)
    assert "#SBATCH --time=1" in str(site.service.submit(late).warning)


@over_ssh
@pytest.mark.parametrize("kind", [JobKind.CELL, JobKind.SCRIPT])
def test_missing_folder_is_rejected(site: Site, kind: JobKind) -> None:
    """Otherwise Slurm would run the job in /tmp."""
    code = "#!/bin/sh\n#SBATCH --chdir /nope\n" if kind is JobKind.SCRIPT else "1"
    options = {} if kind is JobKind.SCRIPT else {"chdir": "/nope"}
    checks = site.service.preview(spec(code, kind=kind, options=options)).checks
    (wrong,) = (one for one in checks if one.ok is False)
    assert (str(wrong.sentence), wrong.option) == (
        f"Folder /nope not found on {site.service.clusters()[0].name}.",
        "chdir",
    )
    with pytest.raises(SubmitError, match="Folder /nope not found") as caught:
        site.service.submit(spec(code, kind=kind, options=options))
    assert caught.value.option == "chdir"
    assert site.service.jobs() == []
    home = site.service.preview(spec("1", options={"chdir": "~/"}))
    assert not any(one.ok is False for one in home.checks)


LINES = (
    *("-p gpu -t 120", "-p gppu", "-p gpu -N 2", "--gres gpu:5", "-c 9", "--mem 17G"),
    *("-p gpu -t 60", "-p gpu -N 1", "--gres gpu:4", "-c 8", "--mem 16G", "-A default"),
    *("-A nobody", "--qos norml", "--qos short -t 30", "--qos short -t 9", ""),
    *("--begin soon", "--nodes two", "--signal NOSUCH", "--switches x", "--nice=low"),
)


@pytest.mark.parametrize("words", LINES)
def test_preview_fails_if_sbatch_with_test_only_fails(strict: Site, words: str) -> None:
    script = spec("#!/bin/sh\n", kind=JobKind.SCRIPT, options=parse_options(words.split()))
    checks = strict.service.preview(script).checks
    told = [check for check in checks if check.ok is False]
    done = strict.cluster.run(
        "sbatch", "--test-only", *words.split(), "--wrap", "true", check=False
    )
    assert bool(told) == (done.returncode != 0), (told, done.stderr)


@pytest.mark.parametrize("words", ["-p gppu", "--qos norml", "--begin soon"])
def test_refusal_by_slurm_is_quoted_at_its_option(strict: Site, words: str) -> None:
    options = parse_options(words.split())
    with pytest.raises(SubmitError) as caught:
        strict.service.submit(spec("1", options=options))
    assert caught.value.option == next(iter(options))
    assert strict.slurm_jobs() == []


def test_submission_runs_only_sbatch_and_scontrol(site: Site) -> None:
    job = site.run("1")
    assert job.state is JobState.COMPLETED
    assert {name.split()[-1] for name in commands(site)} <= {"sbatch", "scontrol"}
    assert commands(site)[f"{job.cluster} sbatch"] == 1


def test_preview_runs_each_command_once(strict: Site) -> None:
    before = Counter(commands_run(strict))
    strict.service.cluster_info()
    strict.service.cluster_info()
    strict.service.preview(spec("1"))
    asked = Counter(commands_run(strict)) - before
    assert asked == {"scontrol": 3, "sinfo": 1, "sacctmgr": 1, "sbatch": 1}


def commands_run(site: Site) -> dict[str, int]:
    counts = site.service.status().commands
    return {name.split()[-1]: count for name, count in counts.items()}
