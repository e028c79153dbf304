"""What is told before a job is sent, on the real Slurm: what it costs, what it would meet, what
speaks against it; and that a submission asks nobody for it."""

from __future__ import annotations

import getpass
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_slurm.errors import CodeError, CommandError, RequestError, SubmitError
from jupyter_slurm.jobs.preflight import offers
from jupyter_slurm.profiles import templates
from jupyter_slurm.slurm.options import parse_options
from jupyter_slurm.wire import JobKind, JobState
from tests.cluster.plugin import SlurmCluster, running_cluster
from tests.cluster.started import started
from tests.jobs.conftest import Site, over_ssh, spec
from tests.ssh.profile import write_profile
from tests.ssh.sshd import Sshd
from tests.ssh.waiting import wait_until

PARTITIONS = (
    "PartitionName=gpu Nodes=ALL MaxTime=1:00:00 DefaultTime=10:00 MaxNodes=1 "
    'OverSubscribe=EXCLUSIVE TRESBillingWeights="CPU=1.0,Mem=0.25G,GRES/gpu=2.0"',
    "PartitionName=endless Nodes=n1 MaxTime=UNLIMITED AllowAccounts=physics",
    "EnforcePartLimits=ALL",
    "AccountingStorageEnforce=associations,limits,qos",
)


def sentences(site: Site, **changes: Any) -> list[str]:
    preview = site.service.preview(spec("1", **changes))
    return [str(check.sentence) for check in preview.checks]


def commands(site: Site) -> dict[str, int]:
    """How often each of Slurm's commands was run, the look at the own jobs aside."""
    counts = site.service.status().commands
    return {name: count for name, count in counts.items() if "squeue" not in name}


@pytest.fixture(scope="module")
def strict_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """A cluster with limits and prices, which it enforces."""
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
        for qos in (
            "short MaxWall=20 MaxTRES=gres/gpu=1,mem=2G MaxTRESPU=gres/gpu=2,cpu=4 "
            "flags=DenyOnLimit",
            "long MaxWall=2-0 MaxTRES=cpu=3",
            "pool GrpTRES=gres/gpu=3 MaxJobsPU=1 MaxSubmitJobsPU=5 flags=DenyOnLimit",
            "room MaxTRES=cpu=2 flags=DenyOnLimit",
            "over MaxTRES=cpu=4 flags=DenyOnLimit,OverPartQOS",
            "wide flags=PartitionTimeLimit,PartitionMaxNodes",
        ):
            cluster.run("sacctmgr", "-i", "add", "qos", *qos.split())
        user = getpass.getuser()
        cluster.run(
            "sacctmgr", "-i", "modify", "user", user, "set", "qos+=short,long,pool,over,wide"
        )
        account = ("sacctmgr", "-i", "modify", "account", "default", "set")
        cluster.run(*account, "GrpTRES=cpu=6,gres/gpu=2")
        mine = ("sacctmgr", "-i", "modify", "user", user, "where", "account=default", "set")
        cluster.run(*mine, "MaxTRES=cpu=5", "GrpTRES=gres/gpu=1", "MaxWall=100")
        # Its QOS must be known when the partition is made.
        cluster.run("scontrol", "create", "PartitionName=room", "Nodes=ALL", "QOS=room")
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


def test_what_a_cluster_allows_and_charges_is_read(strict: Site) -> None:
    info = strict.service.cluster_info()
    known = {one.name: one for one in info.partitions}
    gpu = known["gpu"]
    assert (gpu.cpus, gpu.memory_mib, gpu.gpus_per_node) == (8, 16384, 4)
    assert (gpu.limit_s, gpu.default_time_s, gpu.max_nodes, gpu.exclusive) == (3600, 600, 1, True)
    assert gpu.billing == {"cpu": 1.0, "mem": 0.25 / 1024, "gres/gpu": 2.0}
    assert gpu.gpus_by_type == {"a100": (8, 8)}
    assert known["endless"].allow_accounts == ("physics",)
    assert known["debug"].default
    assert info.enforced == ("requests", "associations", "qos", "limits")
    assert info.reservations == ()


def test_a_preview_tells_price_objections_and_what_is_free(strict: Site) -> None:
    preview = strict.service.preview(
        spec("1", options={"partition": "gpu", "gres": "gpu:5", "time": "02:00:00"})
    )
    wrong = [check for check in preview.checks if check.ok is False]
    assert [str(check.sentence) for check in wrong] == [
        "--time 02:00:00 is more than gpu allows: 1 h.",
        "5 GPUs are more than gpu has on a node: 4.",
    ]
    assert "endless" in str(wrong[0].hint)
    free = [str(check.sentence) for check in preview.checks if "nodes idle" in str(check.sentence)]
    assert len(free) == 1
    assert free[0].startswith("gpu at ")
    assert "of 2 nodes idle" in free[0]
    assert "of 8 GPUs free" in free[0]
    cost = preview.cost
    assert cost is not None
    assert (cost.limit_s, cost.node_hours, cost.cpu_hours) == (3600, 1, 8)
    assert cost.billing_hours == 8 + 4 + 2 * 5


def test_a_preview_names_variables_and_keeps_their_values(strict: Site) -> None:
    cell = strict.service.preview(spec("1", env={"TOKEN": "s3cret"}, modules=("gcc/7.4",)))
    assert " -uB " in cell.script
    assert cell.variables == ("TOKEN",)
    assert "s3cret" not in repr(cell)
    script = spec("#!/bin/sh\n#SBATCH -p gpu -t 9:00:00\ntrue\n", kind=JobKind.SCRIPT)
    preview = strict.service.preview(script)
    assert preview.variables == ()
    assert any("--time 09:00:00 is more" in str(check.sentence) for check in preview.checks)


def test_of_what_would_be_refused_no_start_is_expected(site: Site) -> None:
    preview = site.service.preview(spec("1", options={"time": "99-0"}), estimate=True)
    assert [one.option for one in preview.checks if one.ok is False] == ["time"]
    assert preview.start_estimate_s is None
    assert site.service.preview(spec("1"), estimate=True).start_estimate_s is not None


def test_code_that_does_not_compile_is_refused_before_anything_is_sent(site: Site) -> None:
    wrong = spec("x = [1]\nfor y in x\n    print(y)")
    (check,) = (one for one in site.service.preview(wrong).checks if one.ok is False)
    sentence = "Line 2 of the code is not valid Python: expected ':'."
    assert (str(check.sentence), check.option) == (sentence, "code")
    with pytest.raises(CodeError) as caught:
        site.service.submit(wrong)
    assert (str(caught.value.message), caught.value.option) == (sentence, "code")
    assert site.service.jobs() == []


@pytest.mark.parametrize("code", ["!ls | wc", "pip install x", "x = 1\n%time x", "print?", "# €\n"])
def test_what_ipython_understands_is_not_refused(site: Site, code: str) -> None:
    checks = site.service.preview(spec(code)).checks
    assert not any(one.option == "code" for one in checks)


def test_what_a_newer_python_may_understand_is_warned_of(site: Site) -> None:
    newer = spec("for x in 1:\n    x y z")
    (check,) = (one for one in site.service.preview(newer).checks if one.option == "code")
    assert check.ok is None
    assert "may be newer" in str(check.hint)
    job = site.service.submit(newer)
    assert "Line 2 of the code is not valid Python" in str(job.warning or "")
    site.service.cancel(job.id)
    site.wait(job.id)


@pytest.mark.parametrize("kind", [JobKind.PROGRAM, JobKind.SCRIPT])
def test_options_that_sbatch_ignores_are_named(site: Site, kind: JobKind) -> None:
    late = spec("#!/bin/sh\ntrue\n#SBATCH --time=1\n", kind=kind)
    (check,) = (one for one in site.service.preview(late).checks if one.option == "code")
    assert (check.ok, "#SBATCH --time=1" in str(check.sentence)) == (None, True)
    assert "#SBATCH --time=1" in str(site.service.submit(late).warning)


@over_ssh
@pytest.mark.parametrize("kind", [JobKind.CELL, JobKind.SCRIPT])
def test_a_folder_that_the_cluster_does_not_have_is_refused(site: Site, kind: JobKind) -> None:
    """Slurm itself would run the job in /tmp."""
    code = "#!/bin/sh\n#SBATCH --chdir /nope\n" if kind is JobKind.SCRIPT else "1"
    options = {} if kind is JobKind.SCRIPT else {"chdir": "/nope"}
    checks = site.service.preview(spec(code, kind=kind, options=options)).checks
    (wrong,) = (one for one in checks if one.ok is False)
    assert (str(wrong.sentence), wrong.option) == (
        f"There is no folder /nope on {site.service.clusters()[0].name}.",
        "chdir",
    )
    with pytest.raises(SubmitError, match="There is no folder /nope") as caught:
        site.service.submit(spec(code, kind=kind, options=options))
    assert caught.value.option == "chdir"
    assert site.service.jobs() == []
    home = site.service.preview(spec("1", options={"chdir": "~/"}))
    assert not any(one.ok is False for one in home.checks)


def test_maintenance_that_a_job_would_run_into_is_told(strict: Site) -> None:
    strict.cluster.run(
        *("scontrol", "create", "reservation", "ReservationName=upgrade", "Users=root"),
        *("StartTime=now+2hours", "Duration=60", "Nodes=ALL", "Flags=MAINT,IGNORE_JOBS"),
    )
    try:
        long = sentences(strict, options={"time": "05:00:00"})
        short = sentences(strict, options={"time": "01:00:00"})
    finally:
        strict.cluster.run("scontrol", "delete", "ReservationName=upgrade")
    assert any("Maintenance (`upgrade`) keeps all 2 nodes of debug" in one for one in long)
    assert not any("upgrade" in one for one in short)


def test_figures_older_than_half_a_minute_are_asked_for_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_s = site.service.cluster_info().asked_s
    assert site.service.cluster_info().asked_s == asked_s
    monkeypatch.setattr(
        "jupyter_slurm.jobs.preflight.preview.time", SimpleNamespace(time=lambda: asked_s + 31)
    )
    assert site.service.cluster_info().asked_s > asked_s


def test_what_sbatch_would_refuse_is_refused_here_once_it_is_known(strict: Site) -> None:
    too_long = {"partition": "gpu", "time": "02:00:00"}
    strict.service.cluster_info()
    before = Counter(commands_run(strict))
    with pytest.raises(SubmitError, match="--time 02:00:00 is more than gpu allows"):
        strict.service.submit(spec("1", options=too_long))
    with pytest.raises(SubmitError, match="There is no partition `gppu`; did you mean `gpu`"):
        strict.service.submit(spec("1", options={"partition": "gppu"}))
    assert "sbatch" not in Counter(commands_run(strict)) - before
    assert strict.slurm_jobs() == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"time": "99-0"}, "--time 99-00:00:00 is more than debug allows: 1 d."),
        ({"nodes": "99"}, "99 nodes are more than debug has for a job: "),
    ],
)
def test_what_sbatch_would_let_wait_for_ever_is_refused_by_the_first_submission(
    site: Site, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(SubmitError, match=sentence):
        site.service.submit(spec("1", options=options))
    assert (site.service.jobs(), site.slurm_jobs()) == ([], [])


def test_what_sbatch_takes_by_now_is_not_refused_by_what_was_known(strict: Site) -> None:
    longer = spec("1", options={"partition": "gpu", "time": "02:00:00"})
    limit = ("scontrol", "update", "PartitionName=gpu")
    strict.service.cluster_info()
    strict.cluster.run(*limit, "MaxTime=3:00:00")
    try:
        job = strict.service.submit(longer)
        assert strict.wait(job.id).state is JobState.COMPLETED
    finally:
        strict.cluster.run(*limit, "MaxTime=1:00:00")


LINES = (
    *("-p gpu -t 120", "-p gppu", "-p gpu -N 2", "--gres gpu:5", "-c 9", "--mem 17G"),
    *("-A nobody", "--qos norml", "--gpus a1000:1", "-p endless -A default", "-t 2-0", "-N 3"),
    *("-p gpu -t 60", "-p gpu -N 1", "--gres gpu:4", "-c 8", "--mem 16G", "-A default"),
    *("--qos short -t 30", "--qos short", "--qos short -t 9 -c 5"),
    *("--qos short -t 9 --mem 3G", "--qos short -t 9 --gres gpu:2", "--qos short -t 9"),
    *("--qos short -t 9 -c 4 --mem 2G --gres gpu:1", "--qos long -t 3-0 -p long"),
    *("-p room -c 3", "-p room -c 2", "-p room --qos over -c 3", "-p room --qos over -c 5"),
    *("--qos pool --gpus 4", "--qos pool --gpus 3 -N 1", "--qos pool --array 1-6"),
    *("-A default -c 6", "-A default --qos short -t 9 -c 4 --mem 1G", "-A default --qos pool -c 6"),
    *("-A default --qos pool -c 5", "-A default --qos pool --gpus 2", "-A default -t 101"),
    *("-A default --qos pool -t 101", "-A default --qos pool -c 7"),
    *("-p gpu --qos wide -t 120", "-p gpu --qos wide -N 2", "-p gpu --qos wide -N 3"),
    *("--qos normal", "--gpus a100:1", "--gpus 8 -N 2", "-t 1-0", "-n 16", "--mem 0", ""),
)


def test_the_judge_is_as_strict_as_sbatch(strict: Site) -> None:
    otherwise = {}
    for words in LINES:
        if "pool" in words:  # whose users may have few jobs: those before this one still count
            wait_until(lambda: not strict.cluster.run("squeue", "-h", "-q", "pool").stdout)
        script = spec("#!/bin/sh\n", kind=JobKind.SCRIPT, options=parse_options(words.split()))
        checks = strict.service.preview(script).checks
        told = [str(check.sentence) for check in checks if check.ok is False]
        done = strict.cluster.run("sbatch", *words.split(), "--wrap", "true", check=False)
        if bool(told) != (done.returncode != 0):
            otherwise[words] = (told, done.stderr)
    assert otherwise == {}


def test_inputs_that_need_more_than_the_memory_asked_for_are_told(
    site: Site, tmp_path: Path
) -> None:
    inputs = tmp_path / "inputs.vars"
    with inputs.open("wb") as file:
        file.truncate(200 << 20)
    wanted = {"names_in": ("x",), "inputs": str(inputs)}
    told = "The variables of --in take 200 MiB or more, and the job asks for 100 MiB of memory."
    assert told in sentences(site, options={"mem": "100M"}, **wanted)
    assert told not in sentences(site, options={"mem": "300M"}, **wanted)


def test_a_preview_tells_which_python_runs_a_cell_without_an_image(site: Site) -> None:
    told = f"Without an image the cell runs in `{sys.executable}` of the node."
    assert told in sentences(site)
    program = site.service.preview(spec("#!/bin/sh\n", kind=JobKind.PROGRAM))
    assert told not in [str(check.sentence) for check in program.checks]


def test_a_submission_asks_for_nothing_that_it_did_not_ask_before(site: Site) -> None:
    job = site.run("1")
    assert job.state is JobState.COMPLETED
    assert {name.split()[-1] for name in commands(site)} <= {"sbatch", "scontrol"}
    assert commands(site)[f"{job.cluster} sbatch"] == 1


@pytest.fixture
def settled(
    slurm_cluster: SlurmCluster,
    way: Sshd | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Site]]:
    """On the cluster that tests share, with settings of the profile: `settled(qos=["a"])`."""
    made: list[Site] = []

    def make(partitions: dict[str, str], **settings: Any) -> Site:
        """`partitions`: name -> its table, as TOML."""
        tables = "".join(f"[partitions.{name}]\n{text}\n" for name, text in partitions.items())

        def write(config: Path, name: str, settings: dict[str, Any]) -> Path:
            path = write_profile(config, name, settings)
            path.write_text(path.read_text(encoding="utf-8") + tables, encoding="utf-8")
            return path

        monkeypatch.setattr("tests.jobs.conftest.write_profile", write)
        monkeypatch.setattr("tests.ssh.profile.write_profile", write)
        made.append(Site(slurm_cluster, tmp_path, monkeypatch, sshd=way, **settings))
        return made[-1]

    yield make
    for site in made:
        site.service.close()


DEBUG = 'limit = "10m"\ncpus = 1'
TWO_CPUS = {"partition": "debug", "cpus-per-task": "2"}


def test_the_profile_of_a_person_refuses_until_the_cluster_was_asked(
    settled: Callable[..., Site],
) -> None:
    site = settled({"debug": DEBUG})
    with pytest.raises(RequestError) as caught:
        site.service.submit(spec("1", options=TWO_CPUS))
    assert "2 CPUs are more than debug has on a node: 1 (the profile says)." in str(caught.value)
    assert "change it in " in str(caught.value.hint)
    assert site.slurm_jobs() == []
    site.service.cluster_info()
    job = site.run("1", options=TWO_CPUS)
    assert (job.state, job.warning) == (JobState.COMPLETED, None)


def test_what_only_a_template_says_stands_on_the_job_as_a_warning(
    settled: Callable[..., Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "tests.toml").write_text(f'about = "a test"\n[partitions.debug]\n{DEBUG}\n')
    monkeypatch.setattr(templates, "_FOLDER", folder)
    templates.read.cache_clear()
    site = settled({"debug": 'note = "ours"'}, template="tests")
    job = site.run("1", options=TWO_CPUS)
    assert job.state is JobState.COMPLETED
    assert "are more than debug has on a node: 1 (the template says)." in str(job.warning or "")
    templates.read.cache_clear()


def test_the_doctor_tells_where_the_profile_is_out_of_date(settled: Callable[..., Site]) -> None:
    site = settled({"debug": DEBUG, "gone": "gpus = 1", "short": ""})
    found = {str(check.sentence): check for check in site.service.doctor()}
    debug = "`debug` has a time limit of 1 d, not 10 min, as the profile says."
    assert found[debug].ok is None
    assert "Change it in " in str(found[debug].hint)
    assert "The cluster does not have what the profile names: `gone`." in found


def test_the_doctor_says_so_too_where_all_is_well(settled: Callable[..., Site]) -> None:
    site = settled({"debug": 'limit = "1d"\ngpus = 4', "short": ""})
    told = [str(check.sentence) for check in site.service.doctor()]
    assert "The profile's partitions are as it says: debug, short." in told


def test_a_preview_does_not_depend_on_the_controller(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stands in for a controller that is down; what it says is of no matter here."""

    def silent(*_: object) -> None:
        raise CommandError("slurmctld is down")

    monkeypatch.setattr(offers, "cluster_info", silent)
    told, *_of_the_profile = sentences(site)
    assert told == "The cluster could not be asked: slurmctld is down"


def test_a_job_that_its_qos_would_never_let_start_is_warned_of(strict: Site) -> None:
    checks = strict.service.preview(spec("1", options={"qos": "long", "cpus-per-task": "4"})).checks
    (check,) = (one for one in checks if "QOS" in str(one.sentence))
    assert (check.ok, str(check.sentence)) == (
        None,
        "A job of the QOS `long` can have 3 CPUs, not 4 CPUs.",
    )
    assert "Else the job waits for ever." in str(check.hint)


def test_what_a_qos_leaves_of_what_ones_jobs_have_makes_the_next_one_wait(strict: Site) -> None:
    options = {"qos": "pool", "gpus": "1", "time": "00:10:00"}
    job = strict.service.submit(spec("import time; time.sleep(600)", options=options))
    try:
        strict.wait(job.id, JobState.RUNNING)
        (use,) = (one for one in strict.service.cluster_info().in_use if one.qos == "pool")
        assert (use.jobs, use.queued, use.tres["gres/gpu"]) == (1, 1, 1)
        told = sentences(strict, options={"qos": "pool", "gpus": "3"})
        wait = "It will wait: the QOS `pool` allows 3 GPUs in all, and you use 1 GPU."
        assert wait in told
        told = sentences(strict, options={"qos": "pool"})
        wait = "It will wait: the QOS `pool` allows 1 running job of a user, and you have 1."
        assert wait in told
        next_one = strict.service.submit(spec("1", options=options))
        assert "It will wait" not in str(next_one.warning or "")
        strict.service.cancel(next_one.id)
        strict.wait(next_one.id)
    finally:
        strict.service.cancel(job.id)
        strict.wait(job.id)


def test_what_is_asked_of_the_controller_does_not_grow(strict: Site) -> None:
    """Four of these five, and where there is accounting squeue; sacctmgr asks slurmdbd."""
    before = Counter(commands_run(strict))
    strict.service.cluster_info()
    strict.service.cluster_info()
    strict.service.preview(spec("1"))
    asked = Counter(commands_run(strict)) - before
    assert asked == {"scontrol": 3, "sinfo": 1, "squeue": 1, "sacctmgr": 3}


def commands_run(site: Site) -> dict[str, int]:
    counts = site.service.status().commands
    return {name.split()[-1]: count for name, count in counts.items()}


def test_accounts_and_qos_are_known_where_there_is_accounting(strict: Site) -> None:
    info = strict.service.cluster_info()
    assert "normal" in info.qos
    with pytest.raises(SubmitError, match="There is no QOS `norml` for you; did you mean `nor"):
        strict.service.submit(spec("1", options={"qos": "norml"}))
    with pytest.raises(SubmitError, match="There is no account `nobody` for you"):
        strict.service.submit(spec("1", options={"account": "nobody"}))


def test_a_job_goes_as_the_guide_of_its_template_says(
    private_cluster: Callable[..., SlurmCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Santos Dumont's: whole nodes of a queue, jobs in scratch, which is a folder here. What is
    not here is taken out: the way there, and the modules."""
    cluster = private_cluster(
        nodes=1,
        cpus=4,
        gpus=2,
        extra_conf=(
            "PartitionName=nvidia_small Nodes=ALL MaxTime=1:00:00 OverSubscribe=EXCLUSIVE",
        ),
    )
    site = Site(
        cluster,
        tmp_path,
        monkeypatch,
        template="sdumont",
        host="",
        user="me",
        vars={"project": "p"},
        modules=[],
        job_root=str(tmp_path / "scratch" / "p" / "me" / "jobs"),
    )
    try:
        asked = spec("import os; print(os.environ['PYTHONUSERBASE'])", options={"time": "00:10:00"})
        cost = site.service.preview(asked).cost
        assert cost is not None
        assert (cost.units, cost.unit, cost.limit_s) == (6.0, "UA", 600)
        job = site.wait(site.service.submit(asked).id)
        assert (job.state, job.partition) == (JobState.COMPLETED, "nvidia_small")
        assert site.text(job.id) == "/scratch/p/me/.local\n"
        told = cluster.run("scontrol", "show", "job", str(job.slurm_id)).stdout
        assert "OverSubscribe=NO" in told
        assert "NumNodes=1 NumCPUs=4" in told
    finally:
        site.service.close()
