"""The sweep that `js.map` submits. `test_real.py` runs it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jupyter_slurm as js
from jupyter_slurm.errors import RequestError, SubmitError, VariableError
from jupyter_slurm.variables import read_variables
from jupyter_slurm.wire import JobSpec, SweepSpec
from tests.executor.conftest import Pool


class Sent(Exception):
    """An Api whose agent receives a sweep."""


@pytest.fixture
def sent(api: Pool, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SweepSpec]:
    """Return the spec that `js.map` submits."""
    specs: list[JobSpec] = []

    def submit(spec: JobSpec) -> None:
        specs.append(spec)
        raise Sent

    monkeypatch.setattr(api, "submit", submit)

    def mapped(*args: Any, **options: Any) -> SweepSpec:
        with pytest.raises(Sent):
            js.map(*args, **options)
        spec = specs.pop()
        assert isinstance(spec, SweepSpec)
        return spec

    return mapped


def train(lr: float, seed: int = 0, *more: object) -> object:
    return lr, seed, more


def variables(path: str | None) -> dict[str, Any]:
    assert path is not None
    return read_variables(Path(path))[0]


def test_arguments_of_a_map_are_the_parameters_of_a_sweep(sent: Callable[..., SweepSpec]) -> None:
    spec = sent(train, [1e-3, 1e-4, 0], range(2), gpus=1, image="pytorch:22.11", max_workers=4)
    assert (spec.name, spec.tasks, spec.names_params) == ("train", "0-1", ("lr", "seed"))
    assert (spec.options, spec.image, spec.max_running) == ({"gpus": "1"}, "pytorch:22.11", 4)
    assert variables(spec.params) == {"0": {"lr": 1e-3, "seed": 0}, "1": {"lr": 1e-4, "seed": 1}}
    space = variables(spec.inputs)
    exec(spec.code, space | {"lr": 1, "seed": 2}, space)
    assert spec.names_out == ("result",)
    assert space["result"] == (1, 2, ())


@pytest.mark.parametrize("fn", [max, lambda call, result: (call, result)])
def test_function_without_usable_names_gets_numbered_parameters(
    sent: Callable[..., SweepSpec], fn: Callable[..., object]
) -> None:
    assert sent(fn, [1], [2]).names_params == ("x0", "x1")


def test_empty_iterable_submits_nothing(api: Pool) -> None:
    assert js.map(train, [], [1]) == []
    assert api.calls == []


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"gpuss": 1}, "gpuss"),
        ({"max_workers": 0}, "max-running"),
        ({"out_format": "json"}, "out-format"),
        ({"array": "0-9"}, "array"),
        ({"launch": "mpi"}, "launch"),
        ({"warm": True}, "warm"),
    ],
)
@pytest.mark.usefixtures("api")
def test_invalid_options_are_rejected(options: dict[str, Any], about: str) -> None:
    with pytest.raises(RequestError) as raised:
        js.map(train, [1], **options)
    assert raised.value.option == about


def test_refused_or_unpicklable_call_does_not_leave_files(api: Pool) -> None:
    api.refuse = "Slurm refused the job: no."
    with pytest.raises(SubmitError):
        js.map(train, [1])
    with pytest.raises(VariableError, match="The call of train cannot be sent"):
        js.map(train, [threading.Lock()])
    assert not list((api.folder / "data").rglob("*.vars"))
