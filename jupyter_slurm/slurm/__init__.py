"""Slurm's states, reasons, options and argv, and parsers of its output.

Pure: nothing here starts a process, opens a file or a socket, or knows of jobs, profiles or
notebooks. Modules are independent; nothing is re-exported. Covers releases 20.11 to 26.05; where
they differ, the code names the release.
"""
