"""Keeps what this process holds out of core dumps. Knows no keys and no passwords."""

from __future__ import annotations

import resource


def refuse() -> None:
    """Keep anybody from writing a core dump of this process. Programs that it starts inherit this,
    and may raise the limit again.

    The limit is one byte, which no core dump has: at a limit of 0 Linux writes none to a file, but
    still gives one to a program that `core_pattern` names, and at 1 to neither (core(5), and
    do_coredump in fs/coredump.c).
    """
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0 if most == 0 else 1, most))
