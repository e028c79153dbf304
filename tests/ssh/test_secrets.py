"""Traces of secrets: the test searches every process and every file for canaries."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.ssh.laptop import Laptop

_CELL = """%%slurm --env TOKEN={token} --out seen
import os, pathlib, time
while not (pathlib.Path.home() / "looked-at").exists():
    time.sleep(0.05)
seen = len(os.environ["TOKEN"])"""

_IN_A_JOB = b"SLURM_JOB_ID="


@contextmanager
def watched_processes(
    secret: re.Pattern[bytes], looked_at: Callable[[], object]
) -> Iterator[dict[str, bytes]]:
    """Collect processes that have a `secret` in their arguments or environment at any time. Call
    `looked_at` for a job's process."""
    found: dict[str, bytes] = {}
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.005):
            for what in ("cmdline", "environ"):
                for path in Path("/proc").glob(f"[0-9]*/{what}"):
                    try:
                        text = path.read_bytes()
                    except OSError:
                        continue
                    if secret.search(text):
                        found[str(path)] = text
                        if _IN_A_JOB in text:
                            looked_at()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def below(*folders: Path) -> list[Path]:
    """Return all files below these folders. Files may vanish while Slurm and the agent run."""
    return [
        Path(place, name)
        for folder in folders
        for place, inner, files in os.walk(folder)
        for name in (*inner, *files)
    ]


def files_with(pattern: re.Pattern[bytes], *folders: Path) -> list[Path]:
    found = []
    for path in below(*folders):
        with suppress(FileNotFoundError):
            if path.is_file() and pattern.search(path.read_bytes()):
                found.append(path)
    return found


def test_passwords_codes_and_tokens_do_not_leak_into_processes_or_files(laptop: Laptop) -> None:
    site, home = laptop.site, laptop.home
    password, code, token = site.person.password, site.person.code(), "canary-7c1f0a"
    # Six digits may be part of any number or name. Only a separate word counts as the code.
    typed = re.compile(rf"{password}|(?<![\w.-]){code}(?![\w.-])".encode())
    cell = _CELL.format(token="{token}")
    # The token is a variable of the notebook. The user has read it from another source.
    book = laptop.notebook(
        "book", "%load_ext jupyter_slurm\ntoken = 'canary-' + '7c1f0a'", cell, "seen"
    )
    secrets = re.compile(typed.pattern + b"|" + token.encode())
    looked_at = site.person.account.home / "looked-at"
    with watched_processes(secrets, looked_at.touch) as processes:
        shown = laptop.log_in(code)
        laptop.execute(book)
    assert not [path for path, text in processes.items() if typed.search(text)]
    # The job's program has the token in its environment, as --env promises.
    job_side = {path for path, text in processes.items() if _IN_A_JOB in text}
    assert job_side
    assert set(processes) == job_side
    assert all(path.endswith("environ") for path in job_side)
    assert "Password: " in shown
    assert not typed.search(shown.encode())
    places = (home.folder, site.folder / "far", site.folder / "gateway")
    assert not files_with(re.compile(password.encode()), *places)
    assert not files_with(typed, home.folder)
    with_token = files_with(re.compile(token.encode()), *places)
    assert [path.name for path in with_token] == ["env.sh"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in with_token)
