"""Options, script and files of a job, from a spec and a profile."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.cluster.environment_script import Toolchain, planned
from jupyter_slurm.jobs.layout import JobDir
from jupyter_slurm.jobs.submission.prepare import Submission, prepare
from jupyter_slurm.jobs.submission.resolve import Site, resolved
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.slurm.options import OPTIONS
from jupyter_slurm.wire import Environment, JobKind
from tests.specs import job_spec

FOLDER = JobDir(PurePosixPath("/jobs/50% off/abcdefgh"))
VALUES = {"ignore-pbs": "", "open-mode": "append"}
HOME = Site("/home/alice", FOLDER)
IMAGE = Site("/home/alice", FOLDER, "/images/pytorch")


def prepared(
    *, profile: dict[str, Any] | None = None, site: Site | None = None, **changes: Any
) -> Submission:
    spec = job_spec(**{"id": "abcdefgh", "name": "fit", "code": "1", **changes})
    known = ClusterProfile(name="c", origin="test", **(profile or {}))
    return prepare(resolved(spec, known, site or HOME))


def options(submission: Submission) -> dict[str, str]:
    """Return the long options of sbatch."""
    words = [word for word in submission.sbatch if word.startswith("--") and word != "--"]
    return {name.removeprefix("--"): value for name, _, value in (w.partition("=") for w in words)}


def test_job_id_is_in_name_and_comment() -> None:
    found = options(prepared(options={"comment": "mine"}))
    assert found["job-name"] == "fit.abcdefgh"
    assert found["comment"] == "jslurm:abcdefgh mine"


def test_slurm_output_is_in_the_job_folder() -> None:
    found = options(prepared())
    assert found["chdir"] == "/jobs/50% off/abcdefgh"
    assert found["output"] == "/jobs/50%% off/abcdefgh/slurm.out"


@pytest.mark.parametrize(
    ("asked", "kind", "nodes"),
    [
        ({"gpus": "2"}, JobKind.CELL, "1"),
        ({"gpus": "2", "nodes": "2"}, JobKind.CELL, "2"),
        ({"gpus": "2", "ntasks": "2"}, JobKind.CELL, None),
        ({"gpus": "2"}, JobKind.PROGRAM, None),
    ],
)
def test_gpus_of_one_process_are_on_one_node(
    asked: dict[str, str], kind: JobKind, nodes: str | None
) -> None:
    assert options(prepared(options=asked, kind=kind, code="#!/bin/sh")).get("nodes") == nodes


@pytest.mark.parametrize(
    "name", ["job-name", "array", *(name for name, one in OPTIONS.items() if one.not_in_cell)]
)
def test_unsupported_option_of_a_cell_is_rejected_with_a_hint(name: str) -> None:
    with pytest.raises(RequestError, match=f"`--{name}` cannot be used for this job") as caught:
        prepared(options={name: VALUES.get(name, "1")})
    assert caught.value.hint
    assert caught.value.option == name


def test_job_is_requeued_only_with_the_requeue_option() -> None:
    assert "no-requeue" in options(prepared())
    found = options(prepared(options={"requeue": ""}))
    assert "requeue" in found
    assert "no-requeue" not in found


def test_engine_job_continues_without_a_lost_node_unless_requeue_is_set() -> None:
    assert "no-kill" in options(prepared(launch="dask"))
    assert "no-kill" not in options(prepared(launch="dask", options={"requeue": ""}))


def test_cell_options_override_the_profile() -> None:
    profile = {"defaults": {"partition": "long", "time": "1h", "image": "x"}}
    found = options(prepared(profile=profile, options={"time": "30m"}, runtime="none"))
    assert (found["partition"], found["time"]) == ("long", "00:30:00")
    assert "image" not in found


OF_PROFILE = {"gpus": "1", "nodes": "1", "exclusive": ""}
BY_GPU = {"gres": "gpu:1,tmp:1G", "time-min": "1h", "requeue": "", "ntasks-per-node": "2"}


@pytest.mark.parametrize(
    ("defaults", "asked", "left"),
    [
        (OF_PROFILE, {"gpus-per-node": "2"}, "nodes exclusive"),
        (OF_PROFILE, {"gres": "gpu:2"}, "nodes exclusive"),
        (OF_PROFILE, {"tres-per-task": "gres/gpu:2"}, "nodes exclusive"),
        (OF_PROFILE, {"oversubscribe": ""}, "gpus nodes"),
        (OF_PROFILE, {"nodelist": "n[1-2]", "gpus": "2"}, "exclusive"),
        (OF_PROFILE, {"gres": "tmp:1G"}, "gpus nodes exclusive"),
        (BY_GPU, {"gpus": "2"}, "time-min requeue ntasks-per-node"),
        (BY_GPU, {"time": "30m", "no-requeue": "", "gres": "tmp:2G"}, "ntasks-per-node"),
    ],
    ids=str,
)
def test_option_replaces_related_defaults_of_the_profile(
    defaults: dict[str, str], asked: dict[str, str], left: str
) -> None:
    found = options(
        prepared(
            profile={"defaults": defaults}, options=asked, kind=JobKind.PROGRAM, code="#!/bin/sh"
        )
    )
    assert {name for name in defaults if name in found} - set(asked) == set(left.split())
    assert asked.keys() <= found.keys()


@pytest.mark.parametrize(
    ("asked", "sent", "trap"),
    [
        ("USR1@60", "B:USR1@60", "trap 'hand_on USR1' USR1"),
        ("HUP@30", "B:HUP@30", "trap 'hand_on USR1' HUP"),
    ],
)
def test_script_gets_the_signal_option_and_forwards_the_signal(
    asked: str, sent: str, trap: str
) -> None:
    submission = prepared(options={"signal": asked})
    assert options(submission)["signal"] == sent
    assert trap in submission.script


@pytest.mark.parametrize(
    ("cwd", "chdir", "site", "seen"),
    [
        ("/home/alice/a b", None, HOME, "'/home/alice/a b'"),
        ("/home/alice/a b", None, IMAGE, "'./a b'"),
        ("/data/x", None, IMAGE, " sh . "),
        ("/home/alice", "/inside", IMAGE, " sh /inside "),
        (None, None, HOME, " sh . "),
    ],
)
def test_program_runs_in_the_working_directory(
    cwd: str | None, chdir: str | None, site: Site, seen: str
) -> None:
    image: dict[str, Any] = {"image": "pytorch", "runtime": "charliecloud"} if site is IMAGE else {}
    asked = {"chdir": chdir} if chdir else {}
    assert seen in prepared(cwd=cwd, site=site, options=asked, **image).script


def test_environment_values_are_only_in_a_file() -> None:
    submission = prepared(env={"TOKEN": "s3cret"}, profile={"job_env": {"A": "b"}})
    assert submission.files["env.sh"] == b"export A=b\nexport TOKEN=s3cret\n"
    assert "s3cret" not in submission.script + " ".join(submission.sbatch)


def test_cell_has_its_inputs_and_the_runner() -> None:
    submission = prepared(names_in=("x",), inputs="/spool/x.vars")
    assert submission.files["inputs.vars"] == Path("/spool/x.vars")
    assert {"cloudpickle.zip", "runner.py", "cell.py", "task.json", "key"} <= set(submission.files)


@pytest.mark.parametrize(
    ("script", "comment"),
    [
        ("#!/bin/sh\n", "jslurm:abcdefgh"),
        ("#!/bin/sh\n#SBATCH --comment='it is mine'\n", "jslurm:abcdefgh it is mine"),
        ("#!/bin/sh\n#SBATCH -J x --comment mine\n", "jslurm:abcdefgh mine"),
    ],
)
def test_comment_of_a_script_is_kept_beside_our_comment(script: str, comment: str) -> None:
    submission = prepared(kind=JobKind.SCRIPT, code=script)
    assert options(submission)["comment"] == comment
    assert submission.files == {"job.sh": script.encode()}


_RULE = {"cpus-per-gpu": "6", "mem-per-gpu": "90G"}
_WITHOUT = {"cpus-per-task": "2", "mem": "64G"}


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({}, _WITHOUT),
        ({"gres": "nvme:1"}, _WITHOUT),
        ({"gres": "gpu:2"}, _RULE),
        ({"gpus": "1", "mem": "8G"}, {"cpus-per-gpu": "6", "mem": "8G"}),
        ({"gpus": "1", "cpus-per-task": "4"}, {"cpus-per-task": "4", "mem-per-gpu": "90G"}),
    ],
)
def test_defaults_per_gpu_replace_other_defaults_in_gpu_jobs(
    asked: dict[str, str], given: dict[str, str]
) -> None:
    found = options(prepared(options=asked, profile={"defaults": _WITHOUT | _RULE}))
    assert {name: found[name] for name in _WITHOUT | _RULE if name in found} == given


def test_directives_override_defaults_of_the_profile() -> None:
    defaults = {"time": "1h", "mem": "8G", "partition": "debug"}
    script = "#!/bin/sh\n#SBATCH -p gpu\n#SBATCH --mem-per-cpu=1G\ntrue\n#SBATCH --time=5\n"
    found = options(
        prepared(kind=JobKind.SCRIPT, code=script, profile={"defaults": defaults}),
    )
    assert set(found) & {"time", "mem", "mem-per-cpu", "partition"} == {"time"}


@pytest.mark.parametrize(
    ("name", "instead"),
    [("mount", "`mounts = "), ("module", "`modules = "), ("env", "job_env"), ("tiem", "`time`")],
)
def test_unknown_default_is_rejected(name: str, instead: str) -> None:
    with pytest.raises(RequestError, match=f"`{name}`") as caught:
        prepared(profile={"defaults": {name: "/data", "image": "x"}})
    assert instead in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("directive", ["#SBATCH -J mine", "#SBATCH --job-name=mine", ""])
def test_script_keeps_its_own_job_name(directive: str) -> None:
    found = options(prepared(kind=JobKind.SCRIPT, code=f"#!/bin/sh\n{directive}\n"))
    assert ("job-name" in found) == (not directive)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "short"},
        {"name": "two words"},
        {"kind": JobKind.SCRIPT, "code": "echo"},
        {"kind": JobKind.PROGRAM, "code": "#!/bin/sh\0"},
        {"options": {"output": "x"}},
        {"options": {"mem": "1G", "mem-per-cpu": "1G"}},
        {"env": {"1A": "x"}},
        {"runtime": "charliecloud"},
        {"cwd": "a\0b"},
        {"push": "relative"},
        {"fetch": ("*.png",), "fetch_to": "relative"},
        {"fetch": ("../x",), "fetch_to": "/x"},
        {"kind": JobKind.SCRIPT, "code": "#!/bin/sh", "fetch": ("x",), "fetch_to": "/x"},
    ],
    ids=str,
)
def test_invalid_spec_is_rejected(changes: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        prepared(**changes)


def test_lab_accepts_only_a_valid_base_url() -> None:
    def base_url(jupyter: str | None) -> str:
        sent = prepared(
            kind=JobKind.LAB, jupyter_base_url=jupyter, profile={"lab_same_origin": True}
        )
        task = sent.files["task.json"]
        assert isinstance(task, bytes)
        told: str = json.loads(task)["base_url"]
        return told

    assert base_url(None) == "/"
    assert base_url("/") == "/jupyter-slurm/lab-proxy/abcdefgh/"
    below = "/user/ada%20l%C3%B6velace/"
    assert base_url(below) == f"{below}jupyter-slurm/lab-proxy/abcdefgh/"
    for wrong in ("", "user/", "/user", "//evil.example/", "/a b/", "/a?b/", "/a'\n/"):
        with pytest.raises(RequestError, match="base URL"):
            base_url(wrong)


def test_environments_python_runs_the_job_and_is_first_on_path() -> None:
    tools = Toolchain("3.11.2", "/usr/bin/python3", "x86_64", "/usr/bin/uv", "")
    packages = Environment(packages=("polars",))
    plan = planned(packages, (), tools, "/jobs/50% off/envs", ClusterProfile(name="c"))
    site = Site("/home/alice", FOLDER, environment=plan)
    usual = {"image": "pytorch", "runtime": "charliecloud"}
    for launch in (None, "ray"):
        made = prepared(
            environment=packages,
            site=site,
            launch=launch,
            profile={"runtime": "charliecloud", "defaults": usual},
        )
        assert f"'{plan.path}/bin/python' -uB" in made.script
        assert f"PATH='{plan.path}'/bin:" in made.script
        beside = [made.files["enter"], *([made.files["engine"]] if launch else [])]
        for file in beside:
            assert isinstance(file, bytes)
            assert f"VIRTUAL_ENV='{plan.path}'".encode() in file
