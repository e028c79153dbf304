"""Routes for the kernelspecs of remote kernels on this server."""

from __future__ import annotations

import msgspec
from jupyter_core.utils import ensure_async
from tornado.web import authenticated

from jupyter_slurm.api import Api
from jupyter_slurm.commands.arguments import read_arguments
from jupyter_slurm.commands.parsing import words_of
from jupyter_slurm.commands.submitting import KERNEL_ADD
from jupyter_slurm.errors import RequestError
from jupyter_slurm.kernel import spec
from jupyter_slurm.server.calls import OWN
from jupyter_slurm.server.handlers import Handler
from jupyter_slurm.wire import RemoteKernel


class KernelWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kernel to add."""

    line: str
    """The arguments of `jupyter slurm kernel add`."""


class KernelName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An existing kernel."""

    name: str


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request without arguments."""


class Kernels(msgspec.Struct, frozen=True):
    """All remote kernels, by name."""

    kernels: list[RemoteKernel]


def meant(api: Api, wish: KernelWish) -> RemoteKernel:
    """Return the kernel that a line describes. Raises RequestError or NotFoundError."""
    return spec.meant(read_arguments(KERNEL_ADD, words_of(wish.line, {})), api.clusters())


def added(api: Api, wish: KernelWish) -> RemoteKernel:
    """Write the kernelspec. Replace our kernelspec of the same name, if any. Raises RequestError or
    NotFoundError."""
    return spec.add(meant(api, wish))


def listed() -> Kernels:
    """Return the remote kernels."""
    return Kernels(spec.listed())


def removed(wish: KernelName) -> Kernels:
    """Remove a kernelspec and return the others. Running kernels continue. Raises NotFoundError."""
    spec.remove(wish.name)
    return Kernels(spec.listed())


class KernelsHandler(Handler):
    """`POST kernels`: list the remote kernels."""

    @authenticated
    async def post(self) -> None:
        await self.permit(OWN["kernels"])
        self.wish(Nothing)
        self.give_value(listed())


class MeantKernelHandler(Handler):
    """`POST kernel_meant`: preview the kernel of a line, while the user types."""

    @authenticated
    async def post(self) -> None:
        await self.permit(OWN["kernel_meant"])
        wish = self.wish(KernelWish)
        self.give_value(await self.relay.with_agent(lambda api: meant(api, wish)))


class AddKernelHandler(Handler):
    """`POST kernel_add`: add the kernel of a line."""

    @authenticated
    async def post(self) -> None:
        await self.permit(OWN["kernel_add"])
        wish = self.wish(KernelWish)
        kernel = await self.relay.with_agent(lambda api: added(api, wish))
        if kernel.name not in await ensure_async(self.kernel_spec_manager.get_all_specs()):
            spec.remove(kernel.name)
            raise RequestError(
                "This Jupyter server does not use kernels from your own folder, so a remote kernel "
                "cannot be added.",
                hint="Change the server's gateway or `allowed_kernelspecs`.",
            )
        self.give_value(kernel)


class RemoveKernelHandler(Handler):
    """`POST kernel_remove`: remove a kernel and list the others."""

    @authenticated
    async def post(self) -> None:
        await self.permit(OWN["kernel_remove"])
        self.give_value(removed(self.wish(KernelName)))
