"""Protection of this process's memory from core dumps."""

from __future__ import annotations

import resource


def refuse() -> None:
    """Disable core dumps. Child processes inherit the limit, and can raise it again.

    The limit is one byte, which is less than any core dump. With a limit of 0, Linux writes no file
    but still pipes a dump to the program in `core_pattern`. With 1, it does neither (core(5), and
    do_coredump in fs/coredump.c).
    """
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0 if most == 0 else 1, most))
