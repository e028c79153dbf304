"""Which language the environment asks for, and that nothing is read for English."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jupyter_slurm import language
from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import Message, said, together

ENGLISH = "The partition {name} is down."
BRAZIL = "A partição p está fora do ar."
JAPAN = "パーティション p は停止中です。"
ITALY = "La partizione p è fuori servizio."


@pytest.fixture(autouse=True)
def back_to_english() -> Iterator[None]:
    yield
    language.choose({})


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({}, "The partition p is down."),
        ({"LANG": "pt_BR.UTF-8"}, BRAZIL),
        ({"LANG": "ja_JP.UTF-8", "LC_MESSAGES": "pt_BR.UTF-8"}, BRAZIL),
        ({"LC_MESSAGES": "ja_JP.UTF-8", "LC_ALL": "pt_BR.UTF-8"}, BRAZIL),
        ({"LC_ALL": "ja_JP.UTF-8", "LANGUAGE": "pt_BR"}, BRAZIL),
        ({"LC_ALL": "", "LANG": "pt_BR"}, BRAZIL),
        ({"LANG": "de_DE.UTF-8", "LANGUAGE": "de:pt_BR:ja"}, BRAZIL),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "en_US:pt_BR"}, "The partition p is down."),
        ({"LANG": "C.UTF-8", "LANGUAGE": "ja"}, JAPAN),
        ({"LC_ALL": "C", "LANGUAGE": "ja"}, "The partition p is down."),
        ({"LANG": "POSIX"}, "The partition p is down."),
        ({"LANG": "C.UTF-8"}, "The partition p is down."),
        ({"LANG": "en_GB.UTF-8"}, "The partition p is down."),
        ({"LANG": "tlh_XX.UTF-8"}, "The partition p is down."),
        ({"LANG": "../../x"}, "The partition p is down."),
        ({"LANG": "it_CH.UTF-8@euro"}, ITALY),
        ({"LANG": "pt"}, BRAZIL),
    ],
)
def test_the_language_is_the_one_that_gettext_would_take(
    environ: dict[str, str], told: str
) -> None:
    language.choose(environ)
    assert said(ENGLISH, name="p") == told


def test_messages_and_errors_are_shown_in_the_language_and_their_names_as_they_are() -> None:
    language.choose({"LANG": "ja_JP.UTF-8"})
    down = Message.of(ENGLISH, name="p")
    both = together(down, "Wait; it starts by itself.")
    assert str(both) == f"{JAPAN}お待ちください。自動的に開始されます。"
    assert said("There is a word {that} nobody knows.") == "There is a word {that} nobody knows."
    assert str(RequestError(down, hint="Code")) == f"{JAPAN}\nコード"
    assert (both.english() if isinstance(both, Message) else "") == (
        "The partition p is down. Wait; it starts by itself."
    )
