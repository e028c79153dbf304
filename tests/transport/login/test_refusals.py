"""A refused login as a sentence; what hosts say in words is understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_slurm.transport.login.refusals import Report
from tests.transport.host_keys import hop_to

HOP = hop_to(Path("known_hosts"), alias="cluster", host="login.example.org")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("The account is locked due to 3 failed logins.", "The account alice@login.example.org is"),
        ("Account locked due to 401 failed logins", "The account alice@login.example.org is locke"),
        ("Your account has expired; please contact your\nsystem administrator", "has expired."),
        ("User account alice is disabled", "is locked."),
        ("Your password has expired, change it at https://x", "The password of alice@login.exampl"),
        (
            "WARNING: Your password has expired.\nPassword change required but no TTY",
            "The password",
        ),
        ("System is going down for maintenance", "lets nobody in at the moment"),
        ("Too many authentication failures", "takes no further tries"),
    ],
)
def test_a_hosts_words_say_more_than_its_refusal(words: str, sentence: str) -> None:
    report = Report(HOP)
    report.hear(words)
    error = report.wrong_answers(3)
    assert sentence in str(error.message)
    assert error.detail == words
    assert error.hint


def test_what_is_said_to_everybody_is_no_reason() -> None:
    report = Report(HOP, greeting="Users whose account is locked: call us. Maintenance on Tuesday.")
    error = report.wrong_answers(3)
    assert "refused the answers 3 times" in str(error.message)
    assert "Maintenance on Tuesday" in str(error.detail)


def test_long_lists_of_keys_are_cut_short() -> None:
    report = Report(HOP, refused_keys=[f"key{i}" for i in range(12)])
    assert "key7; 4 more." in str(report.nothing_left(("publickey",)).message)


def test_after_a_partial_success_it_is_said_what_was_accepted() -> None:
    report = Report(HOP, accepted=["keyboard-interactive"])
    message = report.nothing_left(("publickey",)).message
    assert "takes keys after questions (password, code)" in str(message)


def test_a_host_that_takes_kerberos_too_points_to_openssh() -> None:
    error = Report(HOP).nothing_left(("publickey", "gssapi-with-mic"))
    assert "ssh -fNM -o ControlPath=~/.ssh/master-%C cluster" in str(error.hint)
