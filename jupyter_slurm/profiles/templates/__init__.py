"""Templates of known clusters: with `template = "NAME"`, a profile's table overrides a template's.

In each file, `about` describes the cluster in a line, and `[ask]` has a question for each value
that only the user knows: a setting (`user`, `port`) or a placeholder in braces.
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
    """Questions by setting or placeholder."""
    settings: Mapping[str, Any]

    def variables(self) -> tuple[str, ...]:
        """Return the placeholders, which a profile sets below `vars`."""
        named = _OPEN.findall(str(self.settings))
        return tuple(name for name in self.ask if name in named and name != _USER)

    def filled(self, values: Mapping[str, str]) -> dict[str, Any]:
        """Return the settings with placeholders replaced by values. Raise KeyError if a value is
        missing. Without a user, `{user}` in `storage` stays, and the node replaces it.
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
    """Return the template with this name, one of `names()`."""
    settings = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return Template(name, settings.pop("about"), settings.pop("ask", {}), settings)


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables. Values of `above` override values of `below`; nested tables are merged key
    by key.

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
