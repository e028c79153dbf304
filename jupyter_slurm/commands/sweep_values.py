"""The values of `--sweep`: the parameters of each task. Expressions are evaluated in the user's
namespace, like the cell's own code.
"""

from __future__ import annotations

import ast
import builtins
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jupyter_slurm.errors import RequestError
from jupyter_slurm.wire import MOST_TASKS

Parameters = dict[str, Any]
"""The parameters of one task, by name."""


def variables(texts: Sequence[str]) -> list[str]:
    """Return the variables whose rows are tasks (`--sweep NAME`)."""
    return [text.strip() for text in texts if "=" not in text]


def parameters(texts: Sequence[str], namespace: Mapping[str, object]) -> list[Parameters]:
    """Return the parameters of all tasks: the product of the sweeps, with the last sweep varying
    fastest. Raises RequestError."""
    axes = [_axis(text, namespace) for text in texts]
    names = [name for axis in axes for name in axis[0]]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise _wrong(f"--sweep names {twice} twice.")
    count = 1
    for axis in axes:
        count *= len(axis)
    if count > MOST_TASKS:
        raise _wrong(
            f"The sweep has {count:,} tasks. The limit is {MOST_TASKS:,}.",
            "Sweep fewer values, and loop over the others in the cell's code.",
        )
    return [
        {name: value for part in parts for name, value in part.items()}
        for parts in itertools.product(*axes)
    ]


def _axis(text: str, namespace: Mapping[str, object]) -> list[Parameters]:
    """Return the parameters of one `--sweep`."""
    name, equals, values = text.partition("=")
    name = name.strip()
    if not name.isidentifier():
        raise _wrong(
            f"--sweep: `{name}` is not a variable name.",
            "Write --sweep NAME=VALUES, or --sweep NAME for a DataFrame or a list of dicts.",
        )
    if not equals:
        return _table(name, namespace)
    return [{name: value} for value in _values(name, values.strip(), namespace)]


def _table(name: str, namespace: Mapping[str, object]) -> list[Parameters]:
    """Return the rows of a variable that is a DataFrame or a list of dicts. Raises RequestError."""
    if name not in namespace:
        raise _wrong(
            f"--sweep: unknown variable `{name}`.", f"Define it, or give values: {name}=1,2,3."
        )
    value: Any = namespace[name]
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        columns = [str(column) for column in value.columns]
        rows: list[Any] = [
            dict(zip(columns, row, strict=True)) for row in value.itertuples(index=False)
        ]
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        rows = list(value)
    else:
        rows = [None]
    if not all(isinstance(row, Mapping) for row in rows):
        raise _wrong(
            f"--sweep {name}: the variable is not a DataFrame or a list of dicts.",
            f"Use --sweep {name}={name} to make each of its values a task.",
        )
    if not rows:
        raise _wrong(f"--sweep {name}: the variable is empty.")
    for key in rows[0]:
        if not isinstance(key, str) or not key.isidentifier():
            raise _wrong(f"--sweep {name}: `{key}` is not a variable name.")
    if any(row.keys() != rows[0].keys() for row in rows):
        raise _wrong(f"--sweep {name}: the dicts have different keys.")
    return [dict(row) for row in rows]


def _values(name: str, text: str, namespace: Mapping[str, object]) -> list[Any]:
    """Return the values of a parameter: a comma-separated list, or an expression."""
    if not text:
        raise _wrong(f"--sweep {name} has no values.", f"Write --sweep {name}=1,2,3.")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return [_word(part) for part in text.split(",") if part.strip()]
    if isinstance(tree, ast.Tuple) and not text.startswith("("):
        return [_element(one, text, namespace) for one in tree.elts]
    if isinstance(tree, ast.Name) and tree.id not in namespace:
        return [_element(tree, text, namespace)]
    value = _element(tree, text, namespace, is_alone=True)
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return [value]
    values = list(itertools.islice(value, MOST_TASKS + 1))
    if not values:
        raise _wrong(f"--sweep {name}={text} has no values.")
    return values


def _word(text: str) -> Any:
    """Return a literal, or the word itself."""
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError):
        return text.strip()


def _element(
    tree: ast.expr, text: str, namespace: Mapping[str, object], *, is_alone: bool = False
) -> Any:
    """Return the value of a literal, a bare word or an expression."""
    source = ast.get_source_segment(text, tree) or text
    try:
        return ast.literal_eval(source)
    except (SyntaxError, ValueError):
        pass
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    local = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    outer = {node.id for node in names} - local
    is_word = isinstance(tree, ast.Name) and not is_alone
    has_calls = any(isinstance(node, ast.Call) for node in ast.walk(tree))
    unknown = {one for one in outer if one not in namespace and not hasattr(builtins, one)}
    if is_word or (unknown and not has_calls):
        return source
    try:
        return eval(source, dict(namespace))  # noqa: S307 - the user's own expression
    except Exception as exc:
        raise _wrong(f"--sweep: cannot evaluate `{source}`: {exc!r}.") from exc


def _wrong(message: str, hint: str | None = None) -> RequestError:
    return RequestError(message, hint=hint, option="sweep")
