"""Slurm's states, reasons, options and argv, and parsers for its output. No I/O: nothing here
starts a process, opens a file or a socket, or imports modules for jobs, profiles or notebooks.
Modules are independent; nothing is re-exported. The code covers releases 20.11 to 26.05, and names
the release where they differ.
"""
