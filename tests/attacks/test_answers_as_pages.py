"""Responses of the server, opened as pages. The waiting page of a lab or a dashboard runs only its
own script. Other responses are not pages."""

from __future__ import annotations

from tests.server.served import API, Served
from tests.server.test_access import DASHBOARD, LAB, answers

_HARM = "<script>parent.harmed = 1</script>"


def test_responses_opened_as_pages_cannot_run_scripts(served: Served) -> None:
    client = served.client()
    client.call("submit", spec={"kind": "cell", "id": "a2b4c6d7", "name": _HARM, "code": "1"})
    found = answers(client)
    found["log"] = client.get(f"{API}logfile?job_id=a2b4c6d7")
    assert found["log"].headers["Content-Disposition"].startswith("attachment")
    for name, answer in found.items():
        headers = answer.headers
        policy = headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff", name
        assert "default-src 'none'" in policy, name
        if name in {f"GET {LAB}", f"GET {DASHBOARD}"}:
            assert "script-src 'nonce-" in policy, name
            assert "'unsafe-inline'" not in policy, name
        else:
            kind = headers["Content-Type"].partition(";")[0]
            assert kind in {"application/json", "text/plain"}, name
