"""A POSIX shell at the other end of a channel, and what is done through it. Knows nothing of Slurm.

`words.py` makes text of an argv, `far_shell.py` starts a shell and tells answers from noise,
`shells.py` keeps and lends them; `helper.py` (a command a round trip), `far_program.py` (a program
with streams) and `follow.py` (files that grow) are what they are used for.
"""
