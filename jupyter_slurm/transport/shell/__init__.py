"""POSIX shells on the cluster, and the operations that run through them.

`quoting.py` writes an argv as shell text; `remote_shell.py` starts a shell and separates answers
from other output; `shells.py` keeps shells and lends them to `helper.py` (one command per round
trip), `remote_program.py` (a program with streams) and `follow.py` (files that grow).
"""
