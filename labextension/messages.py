"""Prints, as a JSON list, the English texts of what Python says: the codes of its messages.

For wire.mjs. As gettext's tools do, it reads literals: those of `Message.of`, of errors and of what
shows a text in the user's language, and whole sentences in the modules below, which have no
arguments. Of the reasons' tables, which are filled in when a job waits, it takes what comes out.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import jupyter_slurm
from jupyter_slurm import errors
from jupyter_slurm.commands import labs
from jupyter_slurm.jobs.cluster import doctor, doctor_way, slurm_cluster
from jupyter_slurm.jobs.kinds import KINDS
from jupyter_slurm.jobs.kinds.kind import Kind
from jupyter_slurm.jobs.outcome import verdict
from jupyter_slurm.jobs.preflight import costs, lacking, limits, one_process, policies, preview
from jupyter_slurm.jobs.records import events
from jupyter_slurm.jobs.submission import on_login, script, submit
from jupyter_slurm.profiles import templates
from jupyter_slurm.slurm import diagnosis, limit_reasons, reason_table, reasons, rejections
from jupyter_slurm.slurm.option_table import OPTIONS
from jupyter_slurm.transport.ssh_config import remarks
from jupyter_slurm.views import connections, offer_text, priority_text, spending_text
from jupyter_slurm.wire import ConnectionState, ImageOrigin, LabStep, Text
from jupyter_slurm.wire.state import STATE_WORDS

_SENTENCES = (
    *{
        sys.modules[one.__module__]
        for kind in KINDS.values()
        for one in type(kind).__mro__
        if issubclass(one, Kind)
    },
    *(events, verdict, script, submit, on_login, diagnosis, rejections),
    *(preview, doctor, doctor_way, slurm_cluster, costs, lacking, limits, one_process, policies),
)
_TOLD_BY = {
    *(
        name
        for name, one in vars(errors).items()
        if inspect.isclass(one) and issubclass(one, Exception)
    ),
    *("Message.of", "said", "filled", "tell", "remark", "warn", "table", "Table", "_Note"),
    *("talk.say", "talk.text", "talk.choice", "talk.agreed", "talk.wanted"),
}
"""Their first argument is a text, or a table's head."""
_WRONG = "_wrong"
"""Makes an error about an option, its first argument: the next two are texts."""
_PLACE = re.compile(r"\{\w+\}")
_SENTENCE = re.compile(r"[A-Z][a-z]+\.|(?=.*[a-z]:? )[-A-Z`%].*[.?]", re.DOTALL)
_WORD = re.compile(r"[^\W\d]", re.UNICODE)
_UNITS = ("", "RunMinutes", "PerUser", "PerNode", "MinutesPerJob")
_PER = ("PerUser", "PerAccount", "RunMinsPerUser", "RunMinsPerAccount")
_RESOURCES = ("Cpu", "Jobs", "Wall")
"""One of each kind that has sentences of its own; `{thing}` stands for it."""


def main() -> None:
    package = Path(jupyter_slurm.__file__).parent
    files = (one for one in package.rglob("*.py") if one.parent.name != "node")
    found = {text for file in files for text in _of_messages(file)}
    found |= {text for module in _SENTENCES for text in _sentences(module)}
    found |= {remarks.NOT_READ, remarks.KERBEROS, *remarks.SENTENCES.values()}
    found |= {*_of_templates(), *_of_tables()}
    found |= {*_reasons(), *limit_reasons.THINGS.values(), *STATE_WORDS.values()}
    json.dump(sorted(text for text in found if _WORD.search(_PLACE.sub("", text))), sys.stdout)


def _of_messages(file: Path) -> Iterator[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for scope in ast.walk(tree):
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            yield from _of_scope(scope, tree)


def _of_scope(scope: ast.AST, module: ast.Module) -> Iterator[str]:
    """Yield the texts of the messages that this function, or this module outside of functions,
    makes."""
    nodes = list(_own(scope))
    named: dict[str, list[ast.AST]] = {}
    for node in (*_own(module), *nodes):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.setdefault(node.targets[0].id, []).append(node.value)
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        told = node.args[1:3] if name == _WRONG else node.args[:1] if name in _TOLD_BY else []
        told += [one.value for one in node.keywords if told and one.arg == "hint"]
        yield from (text for one in told for text in _literals(one, named))


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in this scope, and not in that of a function within it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _own(node)


def _literals(node: ast.AST, named: Mapping[str, list[ast.AST]]) -> Iterator[str]:
    """Yield the text of a literal, of both branches of a condition, of all that is put together,
    and of what a name stands for. SystemExit: no catalogue can have what an f-string makes."""
    if isinstance(node, ast.JoinedStr):
        sys.exit(f"Not a literal, so nobody can translate it: {ast.unparse(node)}")
    if isinstance(node, ast.IfExp):
        yield from (*_literals(node.body, named), *_literals(node.orelse, named))
    elif isinstance(node, ast.Tuple | ast.List):
        yield from (text for one in node.elts for text in _literals(one, named))
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "together":
        yield from (text for one in node.args for text in _literals(one, named))
    elif isinstance(node, ast.Name):
        yield from (text for one in named.get(node.id, ()) for text in _literals(one, {}))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def _sentences(module: ModuleType) -> Iterator[str]:
    tree = ast.parse(inspect.getsource(module))
    nodes = list(ast.walk(tree))
    left_out = {node.value for node in nodes if isinstance(node, ast.Expr)}
    left_out |= {part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        text = node.value if isinstance(node, ast.Constant) and node not in left_out else None
        if isinstance(text, str) and _SENTENCE.fullmatch(text):
            yield text


def _of_templates() -> Iterator[str]:
    for name in templates.names():
        one = templates.read(name)
        yield from (one.about, str(one.settings.get("hint", "")), *one.ask.values())
        yield from (told.get("note", "") for told in one.settings.get("partitions", {}).values())


def _of_tables() -> Iterator[str]:
    """Yield the words that tables hold: heads of columns, names of kinds and steps."""
    yield from (
        *offer_text.HEAD,
        *labs.HEAD,
        *connections.CONNECTION_HEAD,
        *connections.TUNNEL_HEAD,
    )
    yield from (*offer_text.SHORT.values(), *spending_text.HOURS.values(), *priority_text.HEAD)
    yield from (*labs.STEPS.values(), *ConnectionState, *ImageOrigin, *LabStep)
    yield from (one.reserved for one in OPTIONS.values() if one.reserved)
    for kind in KINDS.values():
        yield from (kind.noun, kind.idle_without)


def _reasons() -> Iterator[str]:
    for reason in (*reason_table.REASONS, "a text of Slurm's", *_limits()):
        said = reasons.explain(reason)
        yield from map(_code, (said.sentence, said.advice))
    for _, entry in reason_table.PREFIXES:
        yield from (entry.sentence, entry.advice)
    yield from reason_table.OF_ANYBODY.values()


def _limits() -> Iterator[str]:
    parts = itertools.product(("Assoc", "QOS"), ("Grp", "Max", "Min"), _RESOURCES, _UNITS)
    yield from map("".join, parts)
    yield from (f"MaxCpu{unit}" for unit in _PER)


def _code(text: Text) -> str:
    return text if isinstance(text, str) else text.text


if __name__ == "__main__":
    main()
