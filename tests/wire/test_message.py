"""Messages: what a front end says of a text and its arguments."""

from __future__ import annotations

import msgspec
import pytest

from jupyter_slurm.errors import NotFoundError, from_problem
from jupyter_slurm.wire import Message, Problem, Text, filled


def test_a_message_is_its_english_with_its_arguments() -> None:
    said = Message.of("Started on {node} and {others} more.", node="n1", others=2)
    assert str(said) == "Started on n1 and 2 more."
    assert said.args == {"node": "n1", "others": "2"}


@pytest.mark.parametrize("value", ["{by}", "{0}", "%1", "\\1", "{__class__}", "}{"])
def test_what_an_argument_holds_is_not_looked_at(value: str) -> None:
    assert str(Message.of("Cancelled by {by}.", by=value)) == f"Cancelled by {value}."


def test_a_text_of_a_table_takes_the_arguments_that_it_has_a_place_for() -> None:
    names: dict[str, str | Message] = {"qos": " gpu", "job": "7"}
    assert filled("It waits.", names) == "It waits."
    assert filled("The QOS{qos} is full.", names) == Message(
        "The QOS{qos} is full.", {"qos": " gpu"}
    )


@pytest.mark.parametrize("text", ["It waits.", Message.of("It takes {what}.", what=Message("all"))])
def test_a_text_survives_its_way(text: Text) -> None:
    assert msgspec.json.decode(msgspec.json.encode(text), type=Text) == text


def test_an_error_is_its_sentences_and_their_arguments() -> None:
    error = NotFoundError("There is no {path}.", hint="`{slurm} push {path}` sends it.", path="{x}")
    assert str(error) == "There is no {x}.\n`%slurm push {x}` sends it."
    sent = msgspec.json.decode(msgspec.json.encode(error.problem()), type=Problem)
    assert sent.message == Message("There is no {path}.", {"path": "{x}"})
    assert str(from_problem(sent)) == str(error)
