"""Build and test the conda package of recipe.yaml from the sdist in dist/.

    python recipe/build.py FOLDER [CHANNEL ...]

FOLDER gets the package, and is the first channel. Needs py-rattler-build.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rattler_build import Stage0Recipe, ToolConfiguration
from rattler_build.progress import SimpleProgressCallback

RECIPE = Path(__file__).with_name("recipe.yaml")


def main() -> None:
    folder, *channels = sys.argv[1:]
    recipe = Stage0Recipe.from_file(RECIPE)
    tools = ToolConfiguration(test_strategy="native")
    builds = recipe.run_build(
        output_dir=folder,
        channels=channels,
        tool_config=tools,
        progress_callback=SimpleProgressCallback(),  # prints the log, also of a failure
    )
    for built in builds:
        sys.stdout.write("".join(f"{path}\n" for path in built.packages))


if __name__ == "__main__":
    main()
