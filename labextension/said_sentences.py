"""Prints, as JSON, what the agent says of jobs: templates in which %1, %2 … stand for what varies.

For wire.mjs, which makes sentences.ts of it. Reasons come out of their own tables; what is composed
in code is read there, as gettext's tools do: whole sentences, also with values in them. Of
phrases.py all texts are taken: they are what such a value may be, and translated by themselves.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
import sys
from collections.abc import Iterator
from types import ModuleType

from jupyter_slurm.jobs.cluster import slurm_cluster
from jupyter_slurm.jobs.kinds import KINDS
from jupyter_slurm.jobs.kinds.kind import Kind
from jupyter_slurm.jobs.outcome import verdict
from jupyter_slurm.jobs.preflight import (
    costs,
    estimates,
    limits,
    one_process,
    phrases,
    policies,
    preview,
    syntax,
)
from jupyter_slurm.jobs.records import events
from jupyter_slurm.jobs.submission import script
from jupyter_slurm.slurm import diagnosis, limit_reasons, reason_table, reasons, rejections

_COMPOSED = (
    *{
        sys.modules[one.__module__]
        for kind in KINDS.values()
        for one in type(kind).__mro__
        if issubclass(one, Kind)
    },
    *(events, verdict, script, diagnosis, rejections),
    *(preview, slurm_cluster, costs, estimates, limits, one_process, policies, syntax),
)

_VALUE = "\0\0"
_NAMES = ("partition", "qos", "account", "dependency")
_VARIES = re.compile(rf" \(?\0(?:{'|'.join(_NAMES)})\0\)?|{_VALUE}")
"""A name comes and goes with the blank, or the brackets, around it: `the QOS%1`."""
_THINGS = {word: limit_reasons.THINGS[word.lower()] for word in ("Cpu", "Jobs", "Wall")}
_UNITS = ("", "RunMinutes", "PerUser", "PerNode", "MinutesPerJob")
_PER = ("PerUser", "PerAccount", "RunMinsPerUser", "RunMinsPerAccount")
_SENTENCE = re.compile(r"(?=.*[a-z]:? )[-A-Z`%\0].*[.?\0]", re.DOTALL)
_PHRASE = re.compile(r".* .*")


def main() -> None:
    limited = dict(_limits())
    said = {*_reasons(), *_in_code(_SENTENCE, *_COMPOSED)}
    said |= {text for text, thing in limited.items() if thing not in text}
    found = {
        "sentences": {_template(text) for text in said},
        "limits": {_of_a_thing(text, thing) for text, thing in limited.items() if thing in text},
        "things": set(limit_reasons.THINGS.values()),
        "phrases": {_template(text) for text in _in_code(_PHRASE, phrases)},
    }
    json.dump({name: sorted(texts) for name, texts in found.items()}, sys.stdout)


def _explained(reason: str) -> tuple[str, str]:
    said = reasons.explain(reason, job_id=_VALUE, **{name: f"\0{name}\0" for name in _NAMES})
    return said.sentence, said.advice


def _reasons() -> Iterator[str]:
    for reason in [*reason_table.REASONS, _VALUE]:
        yield from _explained(reason)
    for _, entry in reason_table.PREFIXES:
        yield from (text for text in (entry.sentence, entry.advice) if "{" not in text)


def _limits() -> Iterator[tuple[str, str]]:
    """Sentences, and the thing that is limited in each."""
    owned = itertools.product(("Assoc", "QOS"), ("Grp", "Max", "Min"), _THINGS, _UNITS)
    codes = [("".join(parts), _THINGS[parts[2]]) for parts in owned]
    codes += [(f"MaxCpu{unit}", _THINGS["Cpu"]) for unit in _PER]
    for code, thing in codes:
        yield from ((text, thing) for text in _explained(code))


def _of_a_thing(text: str, thing: str) -> str:
    """The thing is %1, so that it is told from a name, and translated, too."""
    return "%1".join(_template(text, 2).rsplit(thing, 1))


def _in_code(wanted: re.Pattern[str], *modules: ModuleType) -> Iterator[str]:
    for module in modules:
        tree = ast.parse(inspect.getsource(module))
        remarks = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        parts = {part for node in joined for part in node.values}
        left_out = remarks | parts | _refusals(tree)
        for node in ast.walk(tree):
            if node not in left_out and wanted.fullmatch(text := _text(node)):
                yield text


def _refusals(tree: ast.AST) -> set[ast.AST]:
    """Find the nodes of `check` methods: their errors reach whoever submits a job, and no job shows
    them."""
    kinds = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    methods = (one for kind in kinds for one in kind.body if isinstance(one, ast.FunctionDef))
    return {part for one in methods if one.name == "check" for part in ast.walk(one)}


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _VALUE
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _template(text: str, first: int = 1) -> str:
    numbers = itertools.count(first)
    return _VARIES.sub(lambda _: f"%{next(numbers)}", text)


if __name__ == "__main__":
    main()
