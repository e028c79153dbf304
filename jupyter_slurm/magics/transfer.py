"""The display of a file transfer in the running cell. An interrupt stops the transfer."""

from __future__ import annotations

import time
from functools import partial

from jupyter_slurm.api import Api
from jupyter_slurm.job import check_shown_transfer
from jupyter_slurm.magics.frontend import change, in_place, show
from jupyter_slurm.magics.state import CallThread
from jupyter_slurm.views.transfer_card import bundle, progress_text
from jupyter_slurm.wire import Transfer, TransferState

_WAIT_S = 1.0
_BETWEEN_LOOKS_S = 0.2


class Stopped(KeyboardInterrupt):
    """An interrupt of a cell that also stopped its transfer."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


def follow_transfer(api: Api, worker: CallThread, transfer: Transfer) -> Transfer:
    """Show the transfer until it has ended. Raise its error if it fails. An interrupt stops the
    transfer and raises Stopped."""
    view = _View(transfer)
    look = partial(api.transfer, transfer.id, wait_s=_WAIT_S)
    try:
        while transfer.state is TransferState.RUNNING:
            transfer = worker(look)
            view.update(transfer)
            if transfer.state is TransferState.RUNNING:
                time.sleep(_BETWEEN_LOOKS_S)
    except KeyboardInterrupt:
        stopped = api.stop_transfer(transfer.id)
        view.update(stopped)
        raise Stopped(progress_text(stopped, time.time())) from None
    return check_shown_transfer(transfer)


class _View:
    """The transfer's display under the cell. A terminal prints only the end."""

    def __init__(self, transfer: Transfer) -> None:
        self._display_id = f"slurm-transfer-{transfer.id}"
        self._shown = False
        self.update(transfer)

    def update(self, transfer: Transfer) -> None:
        if not in_place() and transfer.state is TransferState.RUNNING:
            return
        publish = change if self._shown and in_place() else show
        publish(bundle(transfer, time.time()), {}, display_id=self._display_id)
        self._shown = True
