"""What every test may use."""

import gc
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = (
    "pytester",
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
settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")

_REAL = ("tests.cluster.", "tests.ssh.", "tests.agent.")
"""Modules whose fixtures are real parts: clusters, engines, images, sshds, agents."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="only tests that need no real part")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("fast"):
        config.hook.pytest_deselected(items=[one for one in items if _needs_a_real_part(one)])
        items[:] = [one for one in items if not _needs_a_real_part(one)]
    items[:] = _long_ones_early(items)


def pytest_collection_finish() -> None:
    """Freeze what is loaded by now, since it stays to the end: IPython collects garbage whenever a
    shell ends."""
    gc.collect()
    gc.freeze()


def _long_ones_early(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Spread over the list, of which each worker begins with a part, and before others there."""
    long = [one for one in items if one.get_closest_marker("long")]
    ordered = [one for one in items if not one.get_closest_marker("long")]
    for at, one in reversed([*enumerate(long)]):
        ordered.insert(len(ordered) * at // len(long), one)
    return ordered


def _needs_a_real_part(item: pytest.Item) -> bool:
    """By its fixtures: what is started for a whole module or more is a real part, too. And by the
    mark `real`, of tests that start one by themselves."""
    if item.get_closest_marker("real"):
        return True
    found = getattr(item, "_fixtureinfo", None)
    definitions = [one for ones in found.name2fixturedefs.values() for one in ones] if found else []
    return any(
        one.func.__module__.startswith(_REAL)
        or (one.func.__module__.startswith("tests.") and one.scope != "function")
        for one in definitions
    )
