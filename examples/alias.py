"""alias.py CLUSTER FOLDER: add an image folder to the profile of a private cluster.

The folder `python+3.11` becomes the image `python:3.11`. Repeated calls change nothing.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

from jupyter_slurm import local_cluster


def main() -> None:
    cluster, folder = sys.argv[1:]
    name = Path(folder).name.replace("+", ":")
    profile = local_cluster.profile_path(cluster)
    text = profile.read_text(encoding="utf-8")
    if tomllib.loads(text)["images"].get(name) != folder:
        # [images] is the profile's last table, and `jupyter slurm up` keeps it.
        line = f"{json.dumps(name)} = {json.dumps(folder, ensure_ascii=False)}\n"
        kept = [one for one in text.splitlines() if not one.startswith(json.dumps(name) + " = ")]
        profile.write_text("\n".join(kept) + "\n" + line, encoding="utf-8")
    sys.stdout.write(f"--image {name} is {folder}\n")


if __name__ == "__main__":
    main()
