"""Fixtures and hooks of all tests."""

import fcntl
import gc
import os
import signal
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.sizes import SIZES, leaves_out, size_of

pytest_plugins = (
    "tests.cluster.plugin",
    "tests.cluster.image",
    "tests.cluster.docker",
    "tests.cluster.registry",
    "tests.cluster.apptainer",
    "tests.cluster.pyxis",
    "tests.agent.plugin",
    "tests.ssh.plugin",
    "tests.cluster.machines",
)

# Children of a background shell ignore Ctrl-C. Every program that a test starts would inherit this.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Programs below nohup(1) ignore hangups, too. bash cannot trap signals that it inherits as ignored.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# JupyterLab reads settings of yarn and npm at each start if it finds Node.js. Few users have
# Node.js, and this takes as long as the start itself.
os.environ["PATH"] = os.pathsep.join(
    [str(Path(__file__).parent / "without_nodejs"), os.environ.get("PATH", os.defpath)]
)

# The time to generate and run an example depends on the load of this machine.
_BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
for _size in SIZES:
    settings.register_profile(_size, _BUSY, max_examples=100 if _size == "all" else 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--size", choices=SIZES, default="all", help="which tests to run (sizes.py)")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile(config.getoption("size"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if leaves_out(config.getoption("size"), collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = SIZES[: SIZES.index(config.getoption("size")) + 1]
    left_out = {one for one in items if size_of(one) not in wanted}
    if left_out:
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [one for one in items if one not in left_out]
    items[:] = _long_ones_early(items)


def pytest_collection_finish() -> None:
    """Freeze the loaded objects, which stay until the end. IPython collects garbage whenever a
    shell ends."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest-timeout starts to count
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run tests with Ray or Dask one at a time: each starts a dozen processes, and Ray fails if
    some take more than 15 s to start (ray-project/ray#65983)."""
    if "engines_python" not in getattr(item, "fixturenames", ()):
        return (yield)
    lock = os.open(Path(__file__).parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return (yield)
    finally:
        os.close(lock)


def _long_ones_early(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Spread long tests over the list, since each worker starts with a part of it. Move them to the
    front of their part."""
    long = [one for one in items if one.get_closest_marker("long")]
    ordered = [one for one in items if not one.get_closest_marker("long")]
    for at, one in reversed([*enumerate(long)]):
        ordered.insert(len(ordered) * at // len(long), one)
    return ordered
