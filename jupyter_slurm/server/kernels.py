"""The routes of remote kernels: their kernelspecs, which lie on the machine of this server.

`kernel/spec.py` makes and checks the kernelspecs.
"""

from __future__ import annotations

import msgspec
from jupyter_core.utils import ensure_async
from tornado.web import authenticated

from jupyter_slurm.api import Api
from jupyter_slurm.commands import line
from jupyter_slurm.commands.arguments import read_arguments
from jupyter_slurm.commands.braces import expand
from jupyter_slurm.commands.submitting import KERNEL_ADD
from jupyter_slurm.errors import RequestError
from jupyter_slurm.kernel import spec
from jupyter_slurm.server.calls import OWN
from jupyter_slurm.server.handlers import Handler
from jupyter_slurm.wire import RemoteKernel


class KernelWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kernel that is to be there."""

    line: str
    """The words after `jupyter slurm kernel add`."""


class KernelName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kernel that is there."""

    name: str


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing needs to be said."""


class Kernels(msgspec.Struct, frozen=True):
    """All of them, by name."""

    kernels: list[RemoteKernel]


def meant(api: Api, wish: KernelWish) -> RemoteKernel:
    """The kernel that a line asks for; nothing is written. RequestError, NotFoundError."""
    return spec.meant(read_arguments(KERNEL_ADD, words(wish.line)), api.clusters())


def added(api: Api, wish: KernelWish) -> RemoteKernel:
    """Writes its kernelspec, in the place of one of ours with its name. RequestError,
    NotFoundError."""
    return spec.add(meant(api, wish))


def listed() -> Kernels:
    """The remote kernels that can be picked."""
    return Kernels(spec.listed())


def removed(wish: KernelName) -> Kernels:
    """Takes one out of the picker: those that are left. What runs goes on. NotFoundError."""
    spec.remove(wish.name)
    return Kernels(spec.listed())


def words(text: str) -> list[str]:
    """Split the line. There are no variables here: refuse a `{name}`, rather than keep it."""
    return expand(line.split(text), {})


class KernelsHandler(Handler):
    """`POST kernels`: those that there are."""

    @authenticated
    async def post(self) -> None:
        await self.permit(OWN["kernels"])
        self.wish(Nothing)
        self.give_value(listed())


class MeantKernelHandler(Handler):
    """`POST kernel_meant`: a line -> the kernel that it would make; a form asks while its user
    types."""

    @authenticated
    async def post(self) -> None:
        await self.permit(OWN["kernel_meant"])
        wish = self.wish(KernelWish)
        self.give_value(await self.relay.with_agent(lambda api: meant(api, wish)))


class AddKernelHandler(Handler):
    """`POST kernel_add`: a line -> the kernel, which can be picked from now on."""

    @authenticated
    async def post(self) -> None:
        await self.permit(OWN["kernel_add"])
        wish = self.wish(KernelWish)
        kernel = await self.relay.with_agent(lambda api: added(api, wish))
        if kernel.name not in await ensure_async(self.kernel_spec_manager.get_all_specs()):
            spec.remove(kernel.name)
            raise RequestError(
                "This Jupyter does not take its kernels from its user's own folder, so none can "
                "be made here.",
                hint="It has them from a gateway, or allows some alone (`allowed_kernelspecs`).",
            )
        self.give_value(kernel)


class RemoveKernelHandler(Handler):
    """`POST kernel_remove`: a name -> the kernels that are left."""

    @authenticated
    async def post(self) -> None:
        await self.permit(OWN["kernel_remove"])
        self.give_value(removed(self.wish(KernelName)))
