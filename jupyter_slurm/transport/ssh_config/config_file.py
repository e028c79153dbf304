"""Reads files of ssh_config(5) where there is no `ssh` to ask: what holds for one host.

Gives the words as they stand, as `ssh -G` does: no token is expanded, no default filled in but
the names that the rules for `Match` need. Keywords that nobody here asks for are passed over.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jupyter_slurm.errors import ConfigError
from jupyter_slurm.transport.ssh_config.config_words import (
    Destination,
    ThisUser,
    expand,
    matches,
    matches_any,
    without_tilde,
)

SYSTEM_FILE = Path("/etc/ssh/ssh_config")
_BLANKS = " \t\r\n\f"
_DEPTH = 16
_WHOLE_LINE = frozenset({"proxycommand", "proxyjump", "knownhostscommand", "remotecommand"})
_REPEATED = frozenset({"identityfile", "certificatefile", "localforward", "remoteforward"})
_LISTS = frozenset({"userknownhostsfile", "globalknownhostsfile", "localforward", "remoteforward"})
_SINGLE = frozenset(
    """addressfamily bindaddress bindinterface canonicalizehostname compression connecttimeout
    controlpath dynamicforward forwardagent gssapiauthentication hashknownhosts hostkeyalias
    hostbasedauthentication hostname identitiesonly identityagent kbdinteractiveauthentication
    passwordauthentication pkcs11provider port preferredauthentications proxyusefdpass
    pubkeyauthentication revokedhostkeys securitykeyprovider serveralivecountmax
    serveraliveinterval stricthostkeychecking user verifyhostkeydns""".split()
)
_KEYWORDS = _WHOLE_LINE | _REPEATED | _LISTS | _SINGLE


class _Line(NamedTuple):
    path: Path
    number: int
    keyword: str  # lower case
    rest: str

    def error(self, what: str) -> ConfigError:
        return ConfigError(f"{self.path}, line {self.number}: {what}")

    def words(self) -> list[str]:
        """The arguments: quotes taken off, up to a comment."""
        words, text, at = [], self.rest, 0
        while at < len(text):
            if text[at] in " \t":
                at += 1
            elif text[at] == "#":
                break
            else:
                word, at = self._word(at)
                words.append(word)
        return words

    def _word(self, at: int) -> tuple[str, int]:
        text, word, quote = self.rest, "", ""
        while at < len(text) and (quote or text[at] not in " \t"):
            sign, following = text[at], text[at + 1 : at + 2]
            escapes = following and (following in "'\"\\" or (following == " " and not quote))
            if sign == "\\" and escapes:
                word, at = word + following, at + 1
            elif sign in "'\"" and quote in ("", sign):
                quote = "" if quote else sign
            else:
                word += sign
            at += 1
        if quote:
            raise self.error(f"{self.keyword} has a quote that is not closed.")
        return word, at


def read(
    where: Destination, jump: str, files: Path | None, me: ThisUser
) -> dict[str, tuple[str, ...]]:
    """Keyword (lower case) → its values; a list of files has one value each.

    `jump` is what `ssh -J` would be given ("": nothing). `files` None: the user's file and the
    system's. Nothing is remembered: a file may change between two calls. ConfigError.
    """
    evaluation = _Evaluation(where, jump, me)
    evaluation.run(files, final=False)
    if evaluation.wants_final:
        evaluation.run(files, final=True)
    return evaluation.found


class _Evaluation:
    """What has been found for one host so far; the first value of a keyword wins."""

    def __init__(self, where: Destination, jump: str, me: ThisUser) -> None:
        self.found: dict[str, tuple[str, ...]] = {}
        self.wants_final = False
        self._original = where.host
        self._me = me
        self._final = False
        self._user_file = True
        if where.user is not None:
            self.found["user"] = (where.user,)
        if where.port is not None:
            self.found["port"] = (str(where.port),)
        if jump:
            self.found["proxyjump"] = (jump,)

    def run(self, files: Path | None, *, final: bool) -> None:
        if final:
            # As in ssh: the second time the blocks are asked about the name that was found.
            self.found["hostname"] = (self._host().lower(),)
        self._final = final
        self._user_file = True
        if files is not None:
            self._file(files, active=True, depth=0, must_exist=True, private=False)
            return
        user_file = self._me.home / ".ssh" / "config"
        self._file(user_file, active=True, depth=0, must_exist=False, private=True)
        self._user_file = False
        self._file(SYSTEM_FILE, active=True, depth=0, must_exist=False, private=False)

    def _host(self) -> str:
        if "hostname" not in self.found:
            return self._original
        if self._final:
            return self.found["hostname"][0]
        return expand(self.found["hostname"][0], {"h": self._original}, environ=None)

    def _file(
        self, path: Path, *, active: bool, depth: int, must_exist: bool, private: bool
    ) -> None:
        within = active
        for line in _lines(path, must_exist=must_exist, private=private):
            if line.keyword == "host":
                active = within and self._host_fits(line)
            elif line.keyword == "match":
                active = self._match_fits(line, within=within)
            elif line.keyword == "include":
                self._include(line, active=active, depth=depth)
            elif active and line.keyword in _KEYWORDS:
                self._take(line)

    def _include(self, line: _Line, *, active: bool, depth: int) -> None:
        if depth == _DEPTH:
            raise line.error("too many files include one another.")
        for word in line.words():
            path = Path(without_tilde(word, self._me.home))
            folder = self._me.home / ".ssh" if self._user_file else SYSTEM_FILE.parent
            for name in sorted(glob.glob(str(folder / path))):  # noqa: PTH207 (hidden files as glob(3))
                self._file(
                    Path(name), active=active, depth=depth + 1, must_exist=False, private=True
                )

    def _jumps(self) -> bool:
        return self.found.get("proxyjump", ("none",))[0].lower() != "none"

    def _host_fits(self, line: _Line) -> bool:
        host = self._host() if self._final else self._original
        fits = False
        for pattern in line.words():
            if not pattern:
                raise line.error("Host has an empty pattern.")
            if matches(host, pattern.removeprefix("!")):
                if pattern.startswith("!"):
                    return False
                fits = True
        return fits

    def _match_fits(self, line: _Line, *, within: bool) -> bool:
        """`within`: whether the file is read for this host at all. What a criterion that is not
        understood would say is of no matter once another has failed."""
        words = iter(line.words())
        fits, criteria = within, 0
        for word in words:
            criteria += 1
            negated = word.startswith("!")
            name, equals, argument = word.removeprefix("!").partition("=")
            name = name.lower()
            if name == "all":
                if criteria > 2 or next(words, None) is not None:
                    raise line.error("Match all cannot be combined with other criteria.")
                holds = True
            elif name in ("canonical", "final"):
                self.wants_final |= name == "final" and not self._final
                holds = self._final
            else:
                argument = argument if equals else next(words, "")
                holds = fits and self._holds(line, name, argument)
            fits = fits and holds is not negated
        if not criteria:
            raise line.error("Match needs a criterion.")
        return fits

    def _holds(self, line: _Line, name: str, argument: str) -> bool:
        subjects = {
            "host": self._host(),
            "originalhost": self._original,
            "user": self.found.get("user", (self._me.name,))[0],
            "localuser": self._me.name,
        }
        if name not in subjects:
            raise ConfigError(
                f"{line.path}, line {line.number}: Match {name} is not understood without ssh.",
                hint="Install OpenSSH's client, which then reads this file, or write the block"
                " with Host or Match host.",
            )
        if not argument:
            raise line.error(f"Match {name} needs a pattern.")
        if name.endswith("host"):
            # Here, unlike in Host, capitals are as good as small letters.
            return matches_any(subjects[name].lower(), argument.lower().split(","))
        return matches_any(subjects[name], argument.split(","))

    def _take(self, line: _Line) -> None:
        """Keeps what the line says, where nothing was said before."""
        values = self._values(line)
        key, known = line.keyword, self.found.get(line.keyword, ())
        if key in _REPEATED:
            self.found[key] = known + tuple(v for v in values if v not in known)
        elif key == "connecttimeout" and values[0].lower() == "none":
            return  # in ssh as if it had not been said
        elif key == "proxyjump" and "proxycommand" in self.found:
            return  # the first of the two holds, also where it is `ProxyCommand none`
        elif key == "proxycommand" and self._jumps():
            return
        elif not known:
            self.found[key] = values

    @staticmethod
    def _values(line: _Line) -> tuple[str, ...]:
        if line.keyword == "proxyjump":
            values: tuple[str, ...] = (line.rest.split("#", 1)[0].rstrip(),)
        elif line.keyword in _WHOLE_LINE:
            values = (line.rest,)
        else:
            values = tuple(line.words())
        if len(values) > 1 and line.keyword not in _LISTS:
            raise line.error(f"{line.keyword} takes one argument.")
        if not values or not all(values):
            raise line.error(f"{line.keyword} needs an argument.")
        return values


def _lines(path: Path, *, must_exist: bool, private: bool) -> Iterator[_Line]:
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            info = os.fstat(file.fileno())
            if private and (info.st_uid not in (0, os.getuid()) or info.st_mode & 0o022):
                raise ConfigError(
                    f"{path} may be changed by others"
                    f" (mode {stat.S_IMODE(info.st_mode):o}, uid {info.st_uid}).",
                    hint=f"It can name programs to run: chmod 600 {path}",
                )
            raw = file.readlines()
    except OSError as exc:
        if must_exist or not isinstance(
            exc, FileNotFoundError | NotADirectoryError | IsADirectoryError
        ):
            raise ConfigError(f"{path} cannot be read: {exc.strerror}.") from exc
        return
    for number, text in enumerate(raw, 1):
        stripped = text.strip(_BLANKS)
        if stripped and not stripped.startswith("#"):
            keyword, rest = _keyword(stripped)
            yield _Line(path, number, keyword.lower(), rest)


def _keyword(text: str) -> tuple[str, str]:
    """`Keyword value`, `Keyword=value` or `Keyword = value`."""
    end = next((i for i, sign in enumerate(text) if sign in _BLANKS + "="), len(text))
    rest = text[end:].lstrip(_BLANKS)
    return text[:end], rest.removeprefix("=").lstrip(_BLANKS)
