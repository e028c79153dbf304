"""What every test may use."""

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

# Started in the background, a shell's children ignore Ctrl-C, and what is ignored is inherited by
# every program that a test starts to interrupt it.
signal.signal(signal.SIGINT, signal.default_int_handler)
# So are hangups below nohup(1), and a bash cannot trap what it has inherited as ignored.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# JupyterLab asks yarn and npm for their settings at each start where it finds Node.js, which its
# users seldom have: it takes as long as the start itself.
os.environ["PATH"] = os.pathsep.join(
    [str(Path(__file__).parent / "without_nodejs"), os.environ.get("PATH", os.defpath)]
)

# How long an example takes, or making one, is a matter of what else this machine does.
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
    """Freeze what is loaded by now, since it stays to the end: IPython collects garbage whenever a
    shell ends."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest-timeout begins to count
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let tests with Ray or Dask wait for each other: each starts a dozen processes, and Ray gives
    up where some take more than 15 s to start (ray-project/ray#65983)."""
    if "engines_python" not in getattr(item, "fixturenames", ()):
        return (yield)
    lock = os.open(Path(__file__).parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return (yield)
    finally:
        os.close(lock)


def _long_ones_early(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Spread over the list, of which each worker begins with a part, and before others there."""
    long = [one for one in items if one.get_closest_marker("long")]
    ordered = [one for one in items if not one.get_closest_marker("long")]
    for at, one in reversed([*enumerate(long)]):
        ordered.insert(len(ordered) * at // len(long), one)
    return ordered
