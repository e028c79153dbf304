"""What a host says before anybody is logged in is made harmless, and stays readable."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_slurm.transport.login.server_text import shown, shown_line


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        ("Password: ", "Password:"),
        ("\x1b[31;1mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x08\x00b\x7f\x9b", "ab"),
        ("\u202eevil\u2066\u200b\ufeff", "evil"),
        ("a\r\nb\rc\td", "a\nb\nc       d"),
        ("\n\n  one\n\n\n\n\ntwo  \n\n", "  one\n\ntwo"),
        ("Größe 検証コード", "Größe 検証コード"),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
    ],
)
def test_what_is_shown(sent: str | bytes, seen: str) -> None:
    assert shown(sent) == seen


def test_what_is_too_long_is_cut_and_says_so() -> None:
    assert shown("x" * 3000) == "x" * 1998 + " …"
    assert shown_line("a\nb\n" * 200, 10) == "a b a b  …"


@given(st.text(), st.integers(10, 100))
def test_nothing_invisible_is_left_and_nothing_is_too_long(text: str, limit: int) -> None:
    seen = shown(text, limit)
    assert len(seen) <= limit
    assert not [c for c in seen if c != "\n" and unicodedata.category(c).startswith("C")]
    assert "\n" not in shown_line(text, limit)
