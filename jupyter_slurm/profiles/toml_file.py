"""A TOML file with the line of each key for messages. Errors are ConfigErrors that name the
file."""

from __future__ import annotations

import grp
import os
import pwd
import re
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from jupyter_slurm.errors import ConfigError

_TABLE = re.compile(
    r"""^[ \t]*\[[ \t]*(?:"([^"\n]+)"|'([^'\n]+)'|([\w-]+))""", re.ASCII | re.MULTILINE
)


@dataclass(frozen=True)
class TomlFile:
    """The content of a file, and the line (from 1) of each table and key."""

    path: Path
    content: dict[str, Any]
    lines: dict[tuple[str, ...], int]

    @classmethod
    def read(cls, path: Path) -> TomlFile:
        """Read a file. Raise ConfigError if it is unreadable, malformed, or writable by others."""
        try:
            _check_owner(path)
            text = path.read_text(encoding="utf-8")
            return cls(path, tomllib.loads(text), _key_lines(text))
        except OSError as exc:
            raise ConfigError(f"Cannot read {path}: {exc.strerror}.") from exc
        except UnicodeDecodeError as exc:
            raise ConfigError(f"{path} is not UTF-8 text (byte {exc.start}).") from exc
        except (
            ValueError,
            RecursionError,
        ) as exc:  # not only TOMLDecodeError
            raise ConfigError(
                f"{path} is not valid TOML: {exc}.",
                hint="Quote text, and write each line as `key = value` or `[table]`.",
            ) from exc

    def place(self, *keys: str) -> str:
        """Return `FILE, line N` of the innermost of `keys` that has a line."""
        for size in range(len(keys), 0, -1):
            if keys[:size] in self.lines:
                return f"{self.path}, line {self.lines[keys[:size]]}"
        return str(self.path)

    def fail(self, keys: tuple[str, ...], message: str, hint: str | None = None) -> NoReturn:
        """Raise ConfigError with the position of `keys` and `message`."""
        raise ConfigError(f"{self.place(*keys)}: {message}", hint=hint)


def tables_of(path: Path) -> list[str]:
    """Guess the tables of a file that is not valid TOML."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return list(dict.fromkeys("".join(found) for found in _TABLE.findall(text)))


def _key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line (from 1) of each table and key. tomllib does not report positions, so parse
    single lines, which is good enough for messages."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    quotes = 0
    for number, line in enumerate(text.splitlines(), start=1):
        inside = quotes % 2 == 1
        quotes += line.count('"""') + line.count("'''")
        if inside:
            continue
        is_table = line.lstrip().startswith("[")
        try:
            parsed = tomllib.loads(line if is_table else line.split("=", 1)[0] + "= 0")
        except tomllib.TOMLDecodeError:
            continue
        keys: tuple[str, ...] = ()
        while isinstance(parsed, dict) and parsed:
            key, parsed = next(iter(parsed.items()))
            keys = (*keys, key)
        table = keys if is_table else table
        keys = keys if is_table else table + keys
        for size in range(1, len(keys) + 1):
            found.setdefault(keys[:size], number)
    return found


def _check_owner(path: Path) -> None:
    """Raise ConfigError if other users may have written the file, because it names programs to
    run."""
    info = path.stat()
    uid = os.getuid()
    if info.st_uid not in (0, uid):
        raise ConfigError(
            f"{path} belongs to another user (uid {info.st_uid}) and is not trusted.",
            hint="Replace it with your own copy.",
        )
    is_open = info.st_mode & stat.S_IWOTH
    if info.st_mode & stat.S_IWGRP and not _is_private_group(info.st_gid, uid):
        is_open = True
    if is_open:
        raise ConfigError(
            f"Other users can write {path}, so it is not trusted.",
            hint=f"Run `chmod go-w '{path}'`.",
        )


def _is_private_group(gid: int, uid: int) -> bool:
    """Return whether the group has the user's name. By convention, it then has no other members."""
    try:
        return grp.getgrgid(gid).gr_name == pwd.getpwuid(uid).pw_name
    except KeyError:
        return False
