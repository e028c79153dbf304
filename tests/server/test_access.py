"""Access to every route: with the token, without it, and from another site's page.
attacks/test_partial_right.py tests partial rights."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec
import pytest
import websocket

from jupyter_slurm.agent.protocol import calls
from jupyter_slurm.server.calls import RULES, WATCHED
from jupyter_slurm.wire import Problem
from tests.server.served import AGENT, API, Answer, Client, Served, query

FOREIGN = "https://elsewhere.example.org"
OWN = {
    f"{API}spec": "POST",
    f"{API}outlook": "POST",
    f"{API}notebook": "POST",
    f"{API}executed": "POST",
    f"{API}kernels": "POST",
    f"{API}terminal": "POST",
    f"{API}kernel_meant": "POST",
    f"{API}kernel_add": "POST",
    f"{API}kernel_remove": "POST",
    f"{API}up": "POST",
    f"{API}cluster_ways": "POST",
    f"{API}cluster_begin": "POST",
    f"{API}cluster_found": "POST",
    f"{API}cluster_keep": "POST",
    f"{API}cluster_drop": "POST",
    f"{API}logfile": "GET",
    "jupyter-slurm/else": "GET",
}
LAB = "jupyter-slurm/lab/a2b4c6d7"
DASHBOARD = "jupyter-slurm/dashboard/a2b4c6d7/ray"
LAB_PROXY = "jupyter-slurm/lab-proxy/a2b4c6d7"
DASHBOARD_PROXY = "jupyter-slurm/dashboard-proxy/a2b4c6d7/ray"
ROUTES_BY_VERB = (
    [("POST", API + name) for name in RULES]
    + [("GET", API + name) for name, rule in RULES.items() if rule.get]
    + [("POST", AGENT + name) for name in calls()]
    + [(verb, path) for path, verb in OWN.items()]
    + [("POST", "jupyter-slurm/else"), ("GET", LAB), ("POST", LAB)]
    + [("GET", DASHBOARD), ("POST", DASHBOARD)]
)
OUTSIDE = ("a/../../secret", "/etc/passwd", ".hidden")


def answer_to(client: Client, verb: str, path: str, **headers: str) -> Answer:
    """Call the route with invalid arguments, so that nothing changes."""
    body = b'{"nothing": 1}' if verb == "POST" else None
    return client.ask(verb, path, body, **headers)


def refused(answer: Answer, *statuses: int) -> bool:
    """Return whether the server rejected the request, in our error format and without caching."""
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.status in statuses and answer.problem.code in {"forbidden", "not-found"}


def answers(client: Client, **headers: str) -> dict[str, Answer]:
    """Return the answers of all routes."""
    return {
        f"{verb} {path}": answer_to(client, verb, path, **headers) for verb, path in ROUTES_BY_VERB
    }


def let_through(answers: dict[str, Answer]) -> set[str]:
    """Return the routes that were not rejected."""
    return {route for route, answer in answers.items() if not refused(answer, 403, 404)}


def test_token_opens_every_route(served: Served) -> None:
    assert {one.status for one in answers(served.client()).values()} <= {200, 400, 404, 500}


def test_every_route_requires_the_token(served: Served) -> None:
    assert not let_through(answers(served.stranger()))


@pytest.fixture(scope="module")
def page(served: Served) -> Client:
    """Return a browser logged in with the password."""
    return served.stranger().log_in()


def test_page_of_the_server_can_use_every_route(page: Client) -> None:
    got = answers(page, **{"X-XSRFToken": page.cookies["_xsrf"]})
    assert {one.status for one in got.values()} <= {200, 400, 404, 500}


def test_foreign_page_with_the_cookie_is_rejected(page: Client) -> None:
    got = answers(page, Origin=FOREIGN, **{"X-XSRFToken": page.cookies["_xsrf"]})
    assert not let_through(got)
    assert {one.problem.message for one in got.values()} == {"Not Found."}


def test_post_without_the_xsrf_token_is_rejected(page: Client) -> None:
    got = answers(page)
    through = let_through(got)
    assert through == {route for route in through if route.startswith("GET ")}
    assert all("_xsrf" in str(got[f"POST {API}{name}"].problem.message) for name in RULES)


@pytest.mark.parametrize("path", OUTSIDE)
def test_paths_outside_the_servers_root_are_rejected(served: Served, path: str) -> None:
    for file in (served.folder.parent / "secret", served.folder / ".hidden"):
        file.write_text("1")
    client = served.client()
    for name in ("spec", "outlook"):
        answer = client.post(API + name, {"path": path, "line": ""})
        assert (answer.status, answer.problem.code) == (404, "not-found")
    assert client.post(f"{API}notebook", {"path": path}).status == 404
    for name in ("executed", "details", "logs", "result"):
        assert client.post(API + name, {"job_id": path}).status == 404
    assert client.get(query(f"{API}logfile", job_id=path)).status == 404


def test_get_requests_cannot_change_anything(served: Served) -> None:
    for name in (name for name, rule in RULES.items() if not rule.get):
        answer = served.client().get(API + name)
        assert (answer.status, answer.problem.code) == (405, "request"), name


def watch_status(client: Client, origin: str | None = None) -> int:
    return opened_status(lambda: client.watch(origin))


def opened_status(opened: Callable[[], AbstractContextManager[object]]) -> int:
    try:
        with opened():
            return 101
    except websocket.WebSocketBadStatusException as exc:
        return exc.status_code


def test_websocket_requires_authentication_and_the_servers_origin(
    served: Served, page: Client
) -> None:
    assert watch_status(served.client()) == 101
    assert watch_status(page) == 101
    assert watch_status(page, served.url.rstrip("/")) == 101
    assert watch_status(served.stranger()) == 403
    assert watch_status(Client(served.url, "wrong")) == 403
    assert watch_status(page, FOREIGN) == 403


def test_websocket_offers_only_read_calls(served: Served) -> None:
    with served.client().watch() as page:
        for name in sorted(RULES.keys() - WATCHED):
            page.say(watch=1, call=name, args={})
            problem = msgspec.convert(page.hear()["problem"], Problem)
            assert "cannot be watched" in str(problem.message)


def test_foreign_host_header_is_rejected(served: Served) -> None:
    assert refused(served.client().get(f"{API}clusters", Host="evil.example.org"), 403)
