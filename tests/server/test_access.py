"""Who may: every route, and everybody who might come."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest
import websocket
from tornado.web import RequestHandler

from jupyter_slurm.agent.protocol import calls
from jupyter_slurm.server.calls import RULES, WATCHED, Right
from jupyter_slurm.server.extension import ROUTES
from jupyter_slurm.wire import Problem
from tests.server.served import (
    AGENT,
    API,
    Answer,
    Client,
    Served,
    environment,
    memory_agent,
    query,
    running_server,
    short_home,
)

FOREIGN = "https://elsewhere.example.org"
WATCH = f"{API}watch"
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
    f"{API}openapi.json": "GET",
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
OTHER_VERBS = ("PUT", "PATCH", "DELETE", "HEAD")
OUTSIDE = ("../secret", "a/../../secret", "/etc/passwd", "..", "a\0b", "%2e%2e/secret", ".hidden")
GUARD = """\
import os
from jupyter_server.auth import Authorizer

class Guard(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        allowed = os.environ["ALLOWED"].split()
        if resource in ("contents", "kernelspecs"):
            return f"{resource}-{action}" in allowed
        if resource == "terminals":
            return "no-terminals" not in allowed
        return resource != "jupyter_slurm" or action in allowed

c.ServerApp.authorizer_class = Guard
"""


def answer_to(client: Client, verb: str, path: str, **headers: str) -> Answer:
    """No argument is right, so whoever gets through changes nothing."""
    body = b'{"nothing": 1}' if verb == "POST" else None
    return client.ask(verb, path, body, **headers)


def refused(answer: Answer, *statuses: int) -> bool:
    """By the Jupyter server, in our form, and kept by nobody on the way."""
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.status in statuses and answer.problem.code in {"forbidden", "not-found"}


@pytest.fixture(scope="module")
def allowing() -> Iterator[Callable[[str], Served]]:
    """`allowing("read")`: a server whose authorizer lets everybody do that much."""
    with short_home() as home:
        env = environment(home)
        with memory_agent(env):
            started: dict[str, Served] = {}
            servers = []

            def start(actions: str) -> Served:
                if actions not in started:
                    place = home / (actions or "nothing")
                    place.mkdir()
                    server = running_server(env | {"ALLOWED": actions}, place, GUARD)
                    servers.append(server)
                    started[actions] = server.__enter__()
                return started[actions]

            yield start
            for server in servers:
                server.__exit__(None, None, None)


def verbs(handler: type[RequestHandler]) -> set[str]:
    """Those that it answers; OPTIONS is Jupyter's own, and says nothing."""
    others = set(RequestHandler.SUPPORTED_METHODS) - {"OPTIONS"}
    refuses = RequestHandler._unimplemented_method
    return {verb for verb in others if getattr(handler, verb.lower()) is not refuses}


def test_the_table_has_every_route_and_verb() -> None:
    """The first pattern that fits a path is the one whose handler answers."""
    tried: dict[str, set[str]] = {pattern: set() for pattern, _ in ROUTES}
    # What is below the last two is tried in test_lab_proxy.py.
    proxies = (f"{LAB_PROXY}/lab", f"{DASHBOARD_PROXY}/")
    below = [(verb, path) for path in proxies for verb in ("GET", "POST", *OTHER_VERBS)]
    for verb, path in [*ROUTES_BY_VERB, ("GET", WATCH), *below]:
        tried[next(one for one, _ in ROUTES if re.fullmatch(one, f"/{path}"))].add(verb)
    assert tried == {pattern: verbs(handler) for pattern, handler in ROUTES}


def answers(client: Client, **headers: str) -> dict[str, Answer]:
    """Of all routes."""
    return {
        f"{verb} {path}": answer_to(client, verb, path, **headers) for verb, path in ROUTES_BY_VERB
    }


def let_through(answers: dict[str, Answer]) -> set[str]:
    """Those that the server itself has not refused, as it refuses everything: in our form, and
    kept by nobody on the way."""
    return {route for route, answer in answers.items() if not refused(answer, 403, 404)}


def test_with_the_token_one_gets_everywhere(served: Served) -> None:
    assert {one.status for one in answers(served.client()).values()} <= {200, 400, 404, 500}


def test_without_the_token_one_gets_nowhere(served: Served) -> None:
    assert not let_through(answers(served.stranger()))


def test_with_a_wrong_token_one_gets_nowhere(served: Served) -> None:
    assert not let_through(answers(Client(served.url, "wrong")))


@pytest.fixture(scope="module")
def page(served: Served) -> Client:
    """A person's browser, logged in by the password."""
    return served.stranger().log_in()


def test_a_page_of_the_server_gets_everywhere(page: Client) -> None:
    got = answers(page, **{"X-XSRFToken": page.cookies["_xsrf"]})
    assert {one.status for one in got.values()} <= {200, 400, 404, 500}


def test_a_page_of_elsewhere_gets_nowhere_with_the_cookie(page: Client) -> None:
    got = answers(page, Origin=FOREIGN, **{"X-XSRFToken": page.cookies["_xsrf"]})
    assert not let_through(got)
    assert {one.problem.message for one in got.values()} == {"Not Found."}


def test_a_form_without_the_xsrf_token_gets_nowhere_with_the_cookie(page: Client) -> None:
    got = answers(page)
    through = let_through(got)
    assert through == {route for route in through if route.startswith("GET ")}
    assert all("_xsrf" in str(got[f"POST {API}{name}"].problem.message) for name in RULES)


def test_whom_the_authorizer_denies_gets_nowhere(allowing: Callable[[str], Served]) -> None:
    got = answers(allowing("").client())
    assert not let_through(got)
    for verb in ("GET", "POST"):
        del got[f"{verb} jupyter-slurm/else"]  # there is nothing to be let at
    assert {one.status for one in got.values()} == {403}


def test_who_may_read_may_do_nothing_else(allowing: Callable[[str], Served]) -> None:
    """More of parts of rights is in attacks/test_partial_right.py."""
    got = answers(allowing("read").client())
    denied = {route for route, answer in got.items() if answer.status == 403}
    more = {f"POST {API}{name}" for name, rule in RULES.items() if rule.rights != (Right("read"),)}
    own = "outlook notebook executed kernel_add kernel_remove terminal up".split()
    steps = ("cluster_ways", "cluster_begin", "cluster_found", "cluster_keep", "cluster_drop")
    ours = {f"POST {LAB}", f"POST {DASHBOARD}", *(f"POST {API}{name}" for name in (*own, *steps))}
    assert denied == more | ours | {f"POST {AGENT}{name}" for name in calls()}


def test_whom_the_authorizer_keeps_from_files_gets_at_none_by_way_of_jobs(
    allowing: Callable[[str], Served],
) -> None:
    served = allowing("read write execute contents-read")
    (served.folder / "a 50%.py").write_text("1")
    by_path = {"path": "a 50%.py"}
    asks = {"spec": by_path | {"line": ""}, "outlook": by_path | {"line": ""}, "notebook": by_path}
    client = served.client()
    assert {client.post(API + name, asked).status for name, asked in asks.items()} == {200}
    assert client.post(f"{API}executed", {"job_id": "none"}).status == 403
    served = allowing("read write execute contents-write")
    (served.folder / "a 50%.py").write_text("1")
    client = served.client()
    assert {client.post(API + name, asked).status for name, asked in asks.items()} == {403}
    assert client.post(f"{API}spec", {"line": "", "code": "1"}).status == 200
    assert client.post(f"{API}executed", {"job_id": "none"}).status == 404


def test_whom_the_authorizer_keeps_from_kernels_makes_and_removes_none(
    allowing: Callable[[str], Served],
) -> None:
    asks: dict[str, object] = {"kernel_add": {"line": ""}, "kernel_remove": {"name": "none"}}
    client = allowing("read write execute").client()
    assert {client.post(API + name, asked).status for name, asked in asks.items()} == {403}
    assert client.call("kernels") == {"kernels": []}
    client = allowing("read write execute kernelspecs-read kernelspecs-write").client()
    made = client.call("kernel_add", line="--gpus 1 --name mine")
    assert client.call("kernels") == {"kernels": [made]}
    assert "mine" in client.get("api/kernelspecs").value["kernelspecs"]
    removed = client.post(f"{API}kernel_remove", {"name": "mine"})
    assert removed.value == {"kernels": []}
    assert client.post(f"{API}kernel_remove", {"name": "../kernels"}).status == 404


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out_of_the_folder_that_the_server_shows(served: Served, path: str) -> None:
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


def test_a_file_is_named_as_it_is(served: Served) -> None:
    problem = served.client().post(f"{API}notebook", {"path": "50%.py"}).problem
    assert str(problem.message).endswith(" 50%.py")


def test_what_changes_something_is_not_had_by_get(served: Served) -> None:
    for name in (name for name, rule in RULES.items() if not rule.get):
        answer = served.client().get(API + name)
        assert (answer.status, answer.problem.code) == (405, "request"), name


def test_no_other_verb_does_or_tells_anything(served: Served) -> None:
    client = served.client()
    for path in {WATCH, *(path for _, path in ROUTES_BY_VERB)}:
        for verb in OTHER_VERBS:
            assert answer_to(client, verb, path).status == 405, (verb, path)


def watch_status(client: Client, origin: str | None = None) -> int:
    return opened_status(lambda: client.watch(origin))


def opened_status(opened: Callable[[], AbstractContextManager[object]]) -> int:
    try:
        with opened():
            return 101
    except websocket.WebSocketBadStatusException as exc:
        return exc.status_code


def test_the_websocket_opens_for_who_may_and_nobody_else(
    served: Served, page: Client, allowing: Callable[[str], Served]
) -> None:
    assert watch_status(served.client()) == 101
    assert watch_status(page) == 101
    assert watch_status(page, served.url.rstrip("/")) == 101
    assert watch_status(served.stranger()) == 403
    assert watch_status(Client(served.url, "wrong")) == 403
    assert watch_status(page, FOREIGN) == 403
    assert watch_status(allowing("read").client()) == 101
    assert watch_status(allowing("write execute").client()) == 403


def test_a_terminal_needs_execute_and_terminals(allowing: Callable[[str], Served]) -> None:
    for actions, status in (("execute", 404), ("read write", 403), ("execute no-terminals", 403)):
        answer = allowing(actions).client().post(f"{API}terminal", {"job_id": "nojob"})
        assert answer.status == status, actions


def test_nothing_is_written_over_the_websocket(served: Served) -> None:
    with served.client().watch() as page:
        for name in sorted(RULES.keys() - WATCHED):
            page.say(watch=1, call=name, args={})
            problem = msgspec.convert(page.hear()["problem"], Problem)
            assert "cannot be watched" in str(problem.message)


def test_who_asks_to_wait_for_ever_is_answered(served: Served) -> None:
    assert served.client().call("changes", wait_s=1e300)["whole"]


def test_a_foreign_host_name_gets_nothing(served: Served) -> None:
    assert refused(served.client().get(f"{API}clusters", Host="evil.example.org"), 403)


def test_the_server_finds_no_route_without_a_say_in_who_may(served: Served) -> None:
    log = (served.folder.parent / "server.log").read_text()
    # Jupyter names those without: its own terminals are among them.
    assert not re.search(r"registered for \S*jupyter-slurm", log)


def test_an_error_shows_no_folder_and_no_traceback(served: Served) -> None:
    answer = served.client().get(f"{API}job?job_id=a%20bug")
    assert answer.status == 500
    assert "Traceback" not in answer.body.decode()
    assert str(Path(__file__).parents[2]) not in answer.body.decode()
