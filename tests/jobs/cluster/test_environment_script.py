"""Plans of environments, their scripts, and messages of tools that failed to install packages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jupyter_slurm.errors import RequestError
from jupyter_slurm.jobs.cluster.environment_script import (
    EnvironmentPlan,
    Toolchain,
    failure,
    parse_toolchain,
    planned,
    progress,
    render,
)
from jupyter_slurm.profiles.profile import ClusterProfile
from jupyter_slurm.wire import Environment

TOOLS = Toolchain("3.11.2", "/usr/bin/python3", "x86_64", "/home/a/.local/bin/uv", "/opt/conda")

PROFILE = ClusterProfile(name="c")


def plan(
    tools: Toolchain = TOOLS,
    needed: tuple[str, ...] = (),
    profile: ClusterProfile = PROFILE,
    **asked: Any,
) -> EnvironmentPlan:
    environment = Environment(**{"packages": ("polars",), **asked})
    return planned(environment, needed, tools, "/home/a/it's/envs", profile)


def test_only_equal_content_shares_an_environment() -> None:
    assert plan() == plan(file=None)
    others = [
        plan(packages=("polars>=1",)),
        plan(text="numpy"),
        plan(needed=("ipykernel",)),
        plan(replace(TOOLS, python="3.11.3")),
        plan(replace(TOOLS, executable="/opt/python/bin/python3")),
        plan(replace(TOOLS, machine="aarch64")),
        plan(replace(TOOLS, uv="")),
        plan(profile=ClusterProfile(name="c", install_on="job")),
        plan(source="conda", text="dependencies: [numpy]"),
    ]
    assert len({one.id for one in (plan(), *others)}) == len(others) + 1


def test_uv_is_preferred_to_pip_and_conda_installs_conda_files() -> None:
    assert (plan().tool, plan().program) == ("uv", TOOLS.uv)
    assert (plan(replace(TOOLS, uv="")).tool, plan(replace(TOOLS, uv="")).program) == (
        "pip",
        TOOLS.executable,
    )
    assert plan(source="conda", text="x").tool == "conda"
    for tools, source in (
        (replace(TOOLS, conda=""), "conda"),
        (replace(TOOLS, executable=""), "uv.lock"),
    ):
        with pytest.raises(RequestError):
            plan(tools, source=source, text="x")


def test_listed_packages_do_not_show_passwords() -> None:
    text = "--index-url https://ada:secret@h/simple\nnumpy>=1 # why\nx @ https://ada:secret@h/x\n"
    script = render(plan(text=text))
    about = script[script.rindex("printf '%s, ") :]
    assert '["numpy>=1", "x", "polars"]' in about
    assert "secret" not in about


def test_toolchain_is_found_in_the_output_of_login_files() -> None:
    said = (
        "Welcome!\njupyter-slurm python=3.11.2\njupyter-slurm machine=x86_64\njupyter-slurm uv=\n"
    )
    assert parse_toolchain(said) == Toolchain("3.11.2", "", "x86_64", "", "")


END = "\njupyter-slurm: The packages were not installed: uv ended with exit code 1\n"


@pytest.mark.parametrize(
    ("log", "package"),
    [
        # uv 0.13
        (
            "error: No solution found when resolving dependencies\n  cause: Because there is no "
            "version of polars==99.0 and you require polars==99.0, we can conclude that your "
            "requirements are unsatisfiable.",
            "`polars==99.0`",
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: you require "
            "polars<1.5 and polars>=2, which are incompatible",
            "polars<1.5 and polars>=2",
        ),
        # uv 0.5
        (
            "  No solution found when resolving dependencies:\n  ╰─▶ Because nosuch was not "
            "found in the package registry and you\n      require nosuch, we can conclude that "
            "your requirements are\n      unsatisfiable.",
            "`nosuch`",
        ),
        (
            "  ╰─▶ Because only numpy<=2.4 is available and you require numpy>=99, we\n      can "
            "conclude that your requirements are unsatisfiable.",
            "`numpy<=2.4`",
        ),
        ("  Failed to build `foo==1.0`\n  ├─▶ The build backend returned an error", "`foo==1.0`"),
        # pip 23
        (
            "ERROR: Could not find a version that satisfies the requirement nosuch (from versions: "
            "none)\nERROR: No matching distribution found for nosuch",
            "`nosuch`",
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement a==9 (from versions: "
            "1.0, 2.0)\nERROR: No matching distribution found for a==9",
            "`a==9`",
        ),
        ("  ERROR: Failed building wheel for foo\nFailed to build foo", "`foo`"),
        (
            "ERROR: Cannot install a==1 and b==2 because these package versions have conflicting "
            "dependencies.",
            "a==1 and b==2",
        ),
        # conda 23, micromamba 2
        (
            "PackagesNotFoundError: The following packages are not available from current channels:"
            "\n\n  - nosuch=1\n",
            "`nosuch=1`",
        ),
        (
            "error    libmamba Could not solve for environment specs\n    The following package "
            "could not be installed\n    └─ nosuch =* * does not exist (perhaps a typo or a "
            "missing channel).",
            "`nosuch`",
        ),
    ],
)
def test_failure_message_names_the_package(log: str, package: str) -> None:
    told = failure(log + END)
    assert told is not None
    assert package in told[0]


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "error: Request failed after 3 retries\n  Caused by: dns error\n  Caused by: failed to "
            "lookup address information: Name or service not known",
            "index is unreachable",
        ),
        ("OSError: [Errno 28] No space left on device", "full"),
        ("Killed", "Cannot install the packages."),
    ],
)
def test_unknown_failure_is_reported(log: str, words: str) -> None:
    told = failure(log + END)
    assert told is not None
    assert words in told[0]
    assert failure(log) is None


def test_progress_is_the_last_line_with_text() -> None:
    assert progress(
        "jupyter-slurm: Installing the packages\n\x1b[2mDownloading torch\x1b[0m\n\n"
    ) == ("Downloading torch")
    assert progress("jupyter-slurm: Installing the packages\n") == "Installing the packages"
    assert progress("") == ""
