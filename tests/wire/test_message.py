"""Messages: what a front end says of a text and its arguments."""

from __future__ import annotations

import msgspec
import pytest

from jupyter_slurm.errors import NotFoundError, from_problem
from jupyter_slurm.wire import Message, Problem, Text, filled, together


def test_a_message_is_its_english_with_its_arguments() -> None:
    said = Message.of("Started on {node} and {others} more.", node="n1", others=2)
    assert str(said) == "Started on n1 and 2 more."
    assert said.args == {"node": "n1", "others": "2"}


def test_a_message_within_a_message_stays_one() -> None:
    qos = Message.of("the QOS `{name}`", name="gpu")
    said = Message.of("A job of {owner} can have {most}.", owner=qos, most="2 CPUs")
    assert str(said) == "A job of the QOS `gpu` can have 2 CPUs."
    assert said.args["owner"] is qos


@pytest.mark.parametrize("value", ["{by}", "{0}", "%1", "\\1", "{__class__}", "}{"])
def test_what_an_argument_holds_is_not_looked_at(value: str) -> None:
    assert str(Message.of("Cancelled by {by}.", by=value)) == f"Cancelled by {value}."


def test_a_command_is_named_as_a_notebook_has_it() -> None:
    assert str(Message.of("Log in: `{slurm} login`.")) == "Log in: `%slurm login`."


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((), ""),
        ((None, ""), ""),
        (("It waits.", None), "It waits."),
        (("It waits.", Message.of("It takes {what}.", what="a")), "It waits. It takes a."),
    ],
)
def test_several_texts_are_one_without_those_that_are_not_there(
    texts: tuple[Text | None, ...], said: str
) -> None:
    assert str(together(*texts)) == said


def test_texts_that_are_put_together_stay_messages_of_their_own() -> None:
    said = together("It waits.", "Wait.", between="\n")
    assert said == Message("{1}\n{2}", {"1": Message("It waits."), "2": Message("Wait.")})


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
