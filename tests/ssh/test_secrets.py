"""No secret is left anywhere: canaries are looked for in every process and every file."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ssh.laptop import Laptop

_CELL = """%%slurm --env TOKEN={token} --out seen
import os, time
time.sleep(1)
seen = len(os.environ["TOKEN"])"""


@contextmanager
def watched_processes(secret: re.Pattern[bytes]) -> Iterator[dict[str, bytes]]:
    """Where a `secret` was seen: in the arguments or the environment of a process, ever."""
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

    thread = threading.Thread(target=look)
    thread.start()
    yield found
    done.set()
    thread.join()


def files_with(pattern: re.Pattern[bytes], *folders: Path) -> list[Path]:
    paths = [path for folder in folders for path in folder.rglob("*")]
    return [path for path in paths if path.is_file() and pattern.search(path.read_bytes())]


def test_no_password_code_or_token_is_left_in_any_process_or_file(laptop: Laptop) -> None:
    site, home = laptop.site, laptop.home
    password, code, token = site.person.password, site.person.code(), "canary-7c1f0a"
    # Six digits may be part of any number or name: the code counts as a word of its own.
    typed = re.compile(rf"{password}|(?<![\w.-]){code}(?![\w.-])".encode())
    cell = _CELL.format(token="{token}")
    # The token is a variable of the notebook's, which the user has read from somewhere.
    book = laptop.notebook(
        "book", "%load_ext jupyter_slurm\ntoken = 'canary-' + '7c1f0a'", cell, "seen"
    )
    with watched_processes(re.compile(typed.pattern + b"|" + token.encode())) as processes:
        shown = laptop.log_in(code)
        laptop.execute(book)
    assert not [path for path, text in processes.items() if typed.search(text)]
    # The job's own program has the token in its environment: that is what --env is for.
    job_side = {path for path, text in processes.items() if b"SLURM_JOB_ID=" in text}
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


def test_folders_and_files_of_the_agent_are_for_their_owner_alone(laptop: Laptop) -> None:
    laptop.log_in()
    mine = [
        path
        for name in ("data", "runtime")
        for path in (laptop.home.folder / name).rglob("*")
        if "jupyter-slurm" in str(path)
    ]
    assert mine
    assert not [path for path in mine if path.lstat().st_mode & 0o077]
