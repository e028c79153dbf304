"""Both ways of reading ssh_config(5), side by side, for their tests."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

from jupyter_slurm.errors import ConfigError
from jupyter_slurm.transport.ssh_config import Hop, route
from jupyter_slurm.transport.ssh_config.config_words import this_user

ME = this_user()
MakeConfig = Callable[..., Path]


@contextlib.contextmanager
def without_ssh() -> Iterator[None]:
    with mock.patch.dict(os.environ, {"PATH": ""}):
        yield


def comparable(hop: Hop) -> dict[str, Any]:
    """Less the keys that are tried when none is named, which differ between versions of ssh."""
    fields = asdict(hop)
    defaults = ME.home / ".ssh"
    fields["identity_files"] = [p for p in hop.identity_files if p.parent != defaults]
    return fields


def answer(host: str, path: Path, **asked: Any) -> Any:
    try:
        return [comparable(hop) for hop in route(host, config=path, **asked)]
    except ConfigError:
        return ConfigError


def assert_both_agree(host: str, path: Path, **asked: Any) -> Any:
    by_ssh = answer(host, path, **asked)
    with without_ssh():
        assert answer(host, path, **asked) == by_ssh, path.read_text()
    return by_ssh
