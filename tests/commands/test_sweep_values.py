"""The parameters that `--sweep` describes."""

from __future__ import annotations

import math
from typing import Any

import pandas
import pytest

from jupyter_slurm.commands.sweep_values import parameters
from jupyter_slurm.errors import RequestError

SPACE: dict[str, Any] = {
    "xs": [3, 4],
    "word": "adam",
    "configs": [{"a": 1, "b": "it's $HOME\n"}, {"a": 2, "b": ""}],
    "frame": pandas.DataFrame({"a": [1, 2], "b": [0.5, math.nan]}),
    "math": math,
    "twice": lambda x: 2 * x,
}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("x=1e-4,1e-3", [1e-4, 1e-3]),
        ("x=-1,True,None", [-1, True, None]),
        ("x=adam,sgd", ["adam", "sgd"]),
        ("x=resnet-50,vgg-16", ["resnet-50", "vgg-16"]),
        ("x=data/a b.csv,data/c.csv", ["data/a b.csv", "data/c.csv"]),
        ("x='a,b',\"it's $HOME\"", ["a,b", "it's $HOME"]),
        ("x=range(3)", [0, 1, 2]),
        ("x=[twice(x) for x in xs]", [6, 8]),
        ("x=xs", [3, 4]),
        ("x=word", ["adam"]),
        ("x=unknown", ["unknown"]),
        ("x=math.pi,twice(2)", [math.pi, 4]),
        ("x=(1,2),(3,4)", [(1, 2), (3, 4)]),
        ("x=7", [7]),
        ("x=ü,ß", ["ü", "ß"]),
    ],
)
def test_values_are_literals_bare_words_or_expressions(text: str, values: list[object]) -> None:
    assert [one["x"] for one in parameters([text], SPACE)] == values


def test_sweeps_combine_and_the_last_varies_fastest() -> None:
    found = parameters(["lr=1,2", "seed=range(2)"], SPACE)
    assert [(one["lr"], one["seed"]) for one in found] == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_each_row_of_a_table_is_a_task() -> None:
    assert parameters(["configs"], SPACE) == SPACE["configs"]
    first, second = parameters(["frame"], SPACE)
    assert first == {"a": 1, "b": 0.5}
    assert second["a"] == 2
    assert math.isnan(second["b"])
    assert len(parameters(["configs", "seed=range(3)"], SPACE)) == 6


@pytest.mark.parametrize(
    "texts",
    [
        ["nothing"],
        ["word"],
        ["x="],
        ["x=range(0)"],
        ["x=twice()"],
        ["not a name=1"],
        ["x=1,2", "x=3"],
        ["configs", "a=1,2"],
        ["x=range(100_001)"],
        ["x=range(1000)", "y=range(101)"],
    ],
)
def test_invalid_sweep_is_rejected(texts: list[str]) -> None:
    with pytest.raises(RequestError) as caught:
        parameters(texts, SPACE)
    assert caught.value.option == "sweep"
