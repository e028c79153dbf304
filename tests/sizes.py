"""The three sizes of the test suite: `fast`, `main` and `all`.

`fast` runs the tests without real software. `main` adds what most users have: Slurm, sshd,
Charliecloud, a browser. `all` runs everything. A test gets its size from its file, fixtures and
parameters. A new test needs no mark unless it starts real software on its own.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

SIZES = ("fast", "main", "all")
ROOT = Path(__file__).parent

ONLY_IN_ALL = (
    "attacks/*",
    "benchmarks/*",
    "cli/test_lab.py",
    "cli/test_shell.py",
    "containers/test_podman_real.py",
    "containers/test_terminals.py",
    "examples/*",
    "executor/cpython.py",
    "jobs/access/test_labs.py",
    "jobs/access/test_shells.py",
    "jobs/cluster/test_doctor.py",
    "jobs/cluster/test_image_pulls.py",
    "jobs/cluster/test_images.py",
    "jobs/cluster/test_priorities.py",
    "jobs/preflight/test_preview.py",
    "jobs/preflight/test_spending.py",
    "jobs/submission/test_login_node.py",
    "jobs/test_accounting.py",
    "jobs/test_engine*.py",
    "jobs/test_login_files.py",
    "jobs/test_many_nodes*.py",
    "jobs/test_script_outputs.py",
    "jobs/test_site_words.py",
    "kernel/test_protocol.py",
    "kernel/test_remote.py",
    "kernel/test_vscode.py",
    "kernel/test_ways.py",
    "local_cluster/test_cluster.py",
    "local_cluster/test_gpus.py",
    "magics/test_kills.py",
    "magics/test_real_images.py",
    "node/test_kernel.py",
    "node/test_launch.py",
    "server/test_access.py",
    "server/test_hub.py",
    "server/test_lab_proxy.py",
    "server/test_real.py",
    "ssh/test_good_guest.py",
    "ssh/test_lost_*.py",
    "ssh/test_shell.py",
    "test_own_gpu.py",
    "test_wheel.py",
    "transport/ssh/test_kerberos.py",
    "*_faults.py",
    "*/test_hostile*.py",
)
"""Patterns of files below tests/: attacks, guides, benchmarks, rare faults, rare sites, and slow
parts: labs, remote kernels, terminals, building images."""
MAIN_PATHS = (
    "ui/test_card.py",
    "ui/test_first_minute.py",
    "ui/test_lab.py",
    "ui/test_login.py",
)
"""The files of tests/ui that `main` runs; a browser takes more CPU time than other software."""
NOT_FAST = (
    "ssh/*",
    "ui/*",
    "cli/test_completion.py",
    "commands/test_notebooks.py",
    "containers/test_docker.py",
    "contract/test_transport.py",
    "jobs/cluster/test_environment_installation.py",
    "jobs/submission/test_script.py",
    "jobs/submission/test_staging.py",
    "jobs/test_control.py",
    "magics/test_kernel.py",
    "node/test_kernel.py",
    "node/test_lab.py",
    "node/test_runner.py",
    "node/test_runner_cell.py",
    "node/test_runner_values.py",
    "node/test_session.py",
    "node/test_usage.py",
    "slurm/test_sbatch_call.py",
    "transport/files/test_files.py",
    "transport/ssh/test_route.py",
)
"""Patterns of files that start programs in most tests: kernels, shells, `ssh`, a browser."""
_REAL = ("tests.cluster.", "tests.ssh.", "tests.agent.")
"""Modules whose fixtures start real software: clusters, engines, images, sshds, agents."""
_OTHER_PARTS = tuple(
    f"tests.cluster.{name}" for name in ("apptainer", "docker", "machines", "pyxis", "registry")
)
"""Modules whose fixtures start software that only `all` runs: other container tools, nodes with
their own network."""
_OTHER_FIXTURES = {"engines_python", "tensorflow_python", "odd_sshd"}
_OTHER_TOOLS = {"apptainer", "docker", "enroot", "podman", "pyxis", "singularity"}
"""Words in the ID of a parameter, as in `test_figure_is_returned[docker]`."""


def leaves_out(size: str, path: Path) -> bool:
    """Return whether the size skips this file, so that it is not imported."""
    if size == "all" or not path.is_relative_to(ROOT):
        return False
    name = path.relative_to(ROOT).as_posix()
    if size == "fast" and any(fnmatch(name, pattern) for pattern in NOT_FAST):
        return True
    if name.startswith("ui/test_"):
        return name not in MAIN_PATHS
    return any(fnmatch(name, pattern) for pattern in ONLY_IN_ALL)


def size_of(item: pytest.Item) -> str:
    """Return the smallest size that runs this test."""
    if item.get_closest_marker("long") or leaves_out("main", item.path):
        return "all"
    found = getattr(item, "_fixtureinfo", None)
    fixtures = [one for ones in found.name2fixturedefs.values() for one in ones] if found else []
    if any(
        one.func.__module__.startswith(_OTHER_PARTS) or one.argname in _OTHER_FIXTURES
        for one in fixtures
    ):
        return "all"
    is_real = item.get_closest_marker("real") or any(_is_real(one) for one in fixtures)
    if not is_real and not leaves_out("fast", item.path):
        return "fast"
    call = getattr(item, "callspec", None)
    return "all" if call and _OTHER_TOOLS & {*re.split(r"\W+", call.id)} else "main"


def _is_real(fixture: pytest.FixtureDef[object]) -> bool:
    """Return whether the fixture starts real software. All fixtures of module scope and above
    do."""
    module = fixture.func.__module__
    return module.startswith(_REAL) or (module.startswith("tests.") and fixture.scope != "function")
