"""Follow a transfer of files on a terminal: one line that changes, and Ctrl-C to stop it."""

from __future__ import annotations

import sys
import time

from jupyter_slurm.api import Api
from jupyter_slurm.cli.terminal import Terminal
from jupyter_slurm.job import check_shown_transfer
from jupyter_slurm.views.transfer_card import plain
from jupyter_slurm.wire import Transfer, TransferState

_WAIT_S = 1.0
_BETWEEN_LOOKS_S = 0.2


def follow_transfer(api: Api, transfer: Transfer) -> Transfer:
    """Show the transfer until it has ended; raise what made it fail. Ctrl-C stops it."""
    terminal = Terminal(sys.stdout, sys.stderr)
    try:
        while transfer.state is TransferState.RUNNING:
            terminal.status(plain(transfer, time.time()))
            transfer = api.transfer(transfer.id, wait_s=_WAIT_S)
            if transfer.state is TransferState.RUNNING:
                time.sleep(_BETWEEN_LOOKS_S)
    except KeyboardInterrupt:
        transfer = api.stop_transfer(transfer.id)
        raise
    finally:
        terminal.note(plain(transfer, time.time()))
    return check_shown_transfer(transfer)
