"""The input of `docker build` and `ch-image build`: sh text that makes a Dockerfile and the folder
of its files. PURE."""

from __future__ import annotations

from jupyter_slurm.containers.making.script import beside, file
from jupyter_slurm.containers.recipe import Kind, Recipe


def context(recipe: Recipe, base: str | None) -> str:
    """Return sh text that makes `$work/context` and, beside it, `$work/Dockerfile`: as it was
    written, or of lines of packages on `base`, the builder's name for the base image."""
    text = recipe.text
    if recipe.kind is Kind.LINES:
        runs = [" && ".join(one) for one in recipe.commands()]
        text = f"FROM {base}\n" + "".join(f"RUN {one}\n" for one in runs)
    folder = beside("context") if recipe.has_files else 'mkdir "$work/context"\n'
    return folder + file("Dockerfile", text) + 'step "building"\n'
