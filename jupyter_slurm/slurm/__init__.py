"""Slurm's words: states, reasons, options, argv and the parsers of what Slurm prints.

Pure: nothing in this folder starts a process, opens a file or a socket, or knows of jobs,
clusters' profiles or notebooks. Every module stands alone; nothing is re-exported here.
Releases 20.11 to 26.05 are covered; where they differ, the code names the release.
"""
