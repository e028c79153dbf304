"""The input of `docker build` and `ch-image build`: the sh text that makes a
Dockerfile, whatever the recipe, and the folder of its files. PURE."""

from __future__ import annotations

from jupyter_slurm.containers import dockerfile
from jupyter_slurm.containers.making.script import beside, file
from jupyter_slurm.containers.recipe import Kind, Recipe
from jupyter_slurm.containers.steps import SETUP, as_dockerfile, script_dockerfile
from jupyter_slurm.errors import RequestError


def context(recipe: Recipe, base: str | None, first: str = "") -> str:
    """Return sh text that makes `$work/context` and, beside it, `$work/Dockerfile`, which is not
    one of the recipe's files; `base` is the builder's name for the base image, `first` an
    instruction before all others. RequestError: it cannot be a Dockerfile."""
    lines = [beside("context") if recipe.sources() else 'mkdir "$work/context"\n']
    if recipe.kind is Kind.DOCKERFILE:
        dockerfile.check(recipe.text)
        text = dockerfile.with_base(recipe.text, base)
    elif recipe.kind is Kind.SCRIPT:
        lines.append(file(f"context/{SETUP}", recipe.text))
        lines.append(f'chmod 755 "$work/context/{SETUP}"\n')
        text = script_dockerfile(base or "")
    else:
        text = as_dockerfile(base or "", recipe.commands())
    if first:
        text = dockerfile.beginning_with(text, first)
    return "".join([*lines, file("Dockerfile", text), 'step "building"\n'])


def refuse_definition(recipe: Recipe, tool: str) -> None:
    """Raise RequestError for an Apptainer definition."""
    if recipe.kind is Kind.DEFINITION:
        raise RequestError(
            "{tool} takes no Apptainer definitions.",
            hint="Write what %post has as a setup script (#!/bin/sh), and say --from IMAGE.",
            tool=tool,
        )
