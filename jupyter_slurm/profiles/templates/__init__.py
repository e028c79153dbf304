"""Clusters whose guides are known, as profiles: `template = "NAME"` lays a table over one of them.

Reads the files of this folder and fills in what they leave open; what their settings mean is in
`profiles`. In each file, `about` is one line on the cluster, `[ask]` has a question for everything
that only its user knows: a setting (`user`, `port`), or a name that stands in braces in its texts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent
_OPEN = re.compile(r"\{([a-z_]+)\}")
_USER = "user"


@dataclass(frozen=True, slots=True)
class Template:
    name: str
    about: str
    ask: Mapping[str, str]
    """What only the user knows -> the question for it."""
    settings: Mapping[str, Any]

    def variables(self) -> tuple[str, ...]:
        """What is asked for and is no setting: a cluster's own table has it below `vars`."""
        named = _OPEN.findall(str(self.settings))
        return tuple(name for name in self.ask if name in named and name != _USER)

    def filled(self, values: Mapping[str, str]) -> dict[str, Any]:
        """The settings with `{NAME}` filled in. KeyError: `values` has no such name.

        A `{user}` in `storage` stays where no user is known: the node fills it in.
        """
        on_node = {_USER: f"{{{_USER}}}", **values}
        return {
            name: _filled(one, on_node if name == "storage" else values)
            for name, one in self.settings.items()
        }


def names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


@lru_cache(maxsize=16)
def read(name: str) -> Template:
    """The template of that name, which is one of `names()`."""
    settings = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return Template(name, settings.pop("about"), settings.pop("ask", {}), settings)


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`below` with what `above` says: tables key by key, anything else as a whole.

    >>> laid_over({"a": {"x": 1, "y": 2}, "b": [1]}, {"a": {"x": 3}, "b": []})
    {'a': {'x': 3, 'y': 2}, 'b': []}
    """
    merged = dict(below)
    for key, value in above.items():
        known = merged.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            merged[key] = laid_over(known, value)
        else:
            merged[key] = value
    return merged


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    match value:
        case str():
            return _OPEN.sub(lambda found: values[found[1]], value)
        case list():
            return [_filled(one, values) for one in value]
        case dict():
            return {key: _filled(one, values) for key, one in value.items()}
        case _:
            return value
