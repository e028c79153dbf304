"""Submit N held cells and keep their cards live, for `cell.py`: held_cells.py N."""

from __future__ import annotations

import sys

from IPython.core.interactiveshell import InteractiveShell


def main() -> None:
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jupyter_slurm")
    for number in range(int(sys.argv[1])):
        cell = f"%%slurm --fresh --runtime none --hold --detach\nprint({number})"
        shell.run_cell(cell).raise_error()
    sys.stdout.write("\nall submitted\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
