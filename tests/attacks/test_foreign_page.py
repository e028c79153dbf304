"""A foreign page in a browser that is logged in to the user's Jupyter."""

from __future__ import annotations

import pytest

from jupyter_slurm.server.calls import RULES
from tests.server.served import (
    API,
    Client,
    Served,
    query,
)

FOREIGN = "https://elsewhere.example.org"
GETS = [API + name for name, rule in RULES.items() if rule.get] + [
    query(f"{API}logfile", job_id="none"),
]
PAGES: dict[str, dict[str, str]] = {
    "a picture": {"Referer": f"{FOREIGN}/a.html", "Sec-Fetch-Site": "cross-site"},
    "without a referer": {"Sec-Fetch-Site": "cross-site"},
    "of another port": {"Referer": "http://127.0.0.1:9/", "Sec-Fetch-Site": "same-site"},
    "in an old browser": {"Referer": f"{FOREIGN}/a.html"},
    "in an old browser, without a referer": {},
}
"""Headers that browsers set and pages cannot change."""


@pytest.fixture(scope="module")
def browser(served: Served) -> Client:
    """Return a browser that is logged in with the password and sends its cookie for any page."""
    return served.stranger().log_in()


@pytest.mark.parametrize("said", PAGES.values(), ids=PAGES)
def test_foreign_page_cannot_cause_slurm_calls(browser: Client, said: dict[str, str]) -> None:
    answers = {path: browser.get(path, **said) for path in GETS}
    assert {answer.status for answer in answers.values()} == {403}, answers
    assert {answer.problem.code for answer in answers.values()} == {"forbidden"}


def test_requests_from_the_address_bar_own_pages_and_programs_are_answered(
    served: Served, browser: Client
) -> None:
    path = f"{API}queue"
    same = {"Referer": f"{served.url}lab", "Sec-Fetch-Site": "same-origin"}
    assert browser.get(path, **same).status == 200
    assert browser.get(path, **{"Sec-Fetch-Site": "same-origin"}).status == 200
    assert browser.get(path, **{"Sec-Fetch-Site": "none"}).status == 200
    assert browser.get(path, Referer=f"{served.url}lab").status == 200
    assert browser.get(path, **{"X-XSRFToken": browser.cookies["_xsrf"]}).status == 200
    assert browser.get(path, **{"X-XSRFToken": "guessed"}).status == 403
    assert served.client().get(path).status == 200
