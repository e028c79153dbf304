"""CPython's own executor tests, from the interpreter's `test` package, on a real Slurm.

From Python 3.12 on they are mixins. Distributions often omit the package, so the suite does not
collect this file. To run it with a Python that has the package: `pytest --size all
tests/executor/cpython.py`.
"""

from __future__ import annotations

import importlib
import sys
import unittest
from typing import Any

import pytest

from jupyter_slurm.executor import Executor
from tests.executor.test_real import home  # noqa: F401 - a fixture

MIXINS = {
    "executor": "ExecutorTest",
    "test_as_completed": "AsCompletedTests",
    "test_wait": "WaitTests",
    "test_shutdown": "ExecutorShutdownTest",
}
OF_OTHERS = (
    "test_interpreter_shutdown",  # these three start a Python with an executor of the standard
    "test_submit_after_interpreter_shutdown",  # library by its name; see test_real.py
    "test_hang_gh83386",
)


class WarmExecutor(Executor):
    """Executor with the constructor that the tests call: only `max_workers`."""

    def __init__(self, max_workers: int | None = None) -> None:
        super().__init__(warm=True, runtime="none", max_workers=max_workers)


class Warmed:
    """Start workers early: the tests expect them to start as fast as threads."""

    executor: Executor

    def setUp(self) -> None:
        super().setUp()  # type: ignore[misc]
        self.executor.submit(int).result()


def package(name: str) -> Any:
    return importlib.import_module(f"test.test_concurrent_futures.{name}")


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("module", MIXINS)
def test_cpythons_own_tests_pass(module: str) -> None:
    util = package("util")
    mixin = getattr(package(module), MIXINS[module])
    bases = (Warmed, mixin, util.ExecutorMixin, util.BaseTestCase)
    case = type("SlurmTest", bases, {"executor_type": WarmExecutor, "worker_count": 1})
    names = unittest.defaultTestLoader.getTestCaseNames(case)
    suite = unittest.TestSuite(case(name) for name in names if name not in OF_OTHERS)
    done = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    assert done.testsRun >= 4
    assert done.wasSuccessful()
