"""Printer of the JSON schema of all values that leave a process, for wire.ts (see wire.mjs)."""

from __future__ import annotations

import inspect
import json
import sys
from typing import get_args

import msgspec

from jupyter_slurm import wire
from jupyter_slurm.wire.output import Output

# A schema does not name the members of a union, so name their types here.
_EXPORTED = [one for _, one in sorted(vars(wire).items()) if inspect.isclass(one)]
_TYPES = dict.fromkeys([*_EXPORTED, *get_args(wire.Job), *get_args(wire.JobSpec)])
_BY_NAME = {one.__name__: one for one in _TYPES}


def main() -> None:
    _, components = msgspec.json.schema_components(_TYPES, ref_template="#/definitions/{name}")
    unions = {"Output": Output, "Job": wire.Job, "JobSpec": wire.JobSpec, "Row": wire.Row}
    schemas, _ = msgspec.json.schema_components(
        [*unions.values()], ref_template="#/definitions/{name}"
    )
    components.update(zip(unions, schemas, strict=True))
    for schema in components.values():
        _closed(schema)
        _with_tuples(schema)
        if "description" in schema:  # indented before msgspec 0.23
            schema["description"] = inspect.cleandoc(schema["description"])
    root = {
        "title": "Wire",
        "type": "object",
        "properties": {name: {"$ref": f"#/definitions/{name}"} for name in components},
        "additionalProperties": False,
        "definitions": components,
    }
    sys.stdout.write(json.dumps(root))


def _closed(schema: dict[str, object]) -> None:
    """Allow no other fields in objects. Require fields with a default, too, since msgspec writes
    them, except in structs that omit defaults."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return
    schema["additionalProperties"] = False
    for one in properties.values():
        one.pop("default", None)
    struct = _BY_NAME[str(schema["title"])]
    if not struct.__struct_config__.omit_defaults:
        schema["required"] = list(properties)


def _with_tuples(schema: object) -> None:
    """Name a tuple's items as in drafts before 2020-12, since json-schema-to-typescript understands
    only these."""
    for part in schema.values() if isinstance(schema, dict) else ():
        for inner in part if isinstance(part, list) else [part]:
            _with_tuples(inner)
    if isinstance(schema, dict) and "prefixItems" in schema:
        schema["items"] = schema.pop("prefixItems")


if __name__ == "__main__":
    main()
