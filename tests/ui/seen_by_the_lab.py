"""A server extension for labs of tests. It records the headers of every request."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "seen_by_the_lab"}]


def _load_jupyter_server_extension(app: Any) -> None:
    def write(handler: Any) -> None:
        request = handler.request
        line = {"uri": request.uri, "headers": list(request.headers.get_all())}
        with Path(os.environ["SEEN_BY_THE_LAB"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    app.web_app.settings["log_function"] = write
