"""Memory of every rank that every rank can address: the one place that asks torch for it.

torch 2.11 keeps this under torch.distributed._symmetric_memory, whose names change.

NVLink multicast is never used. A rendezvous would make multicast objects where the GPUs have them,
so TORCH_SYMM_MEM_DISABLE_MULTICAST is set for this process before the first one; variables that
disable multicast elsewhere (NCCL_NVLS_ENABLE=0, NVSHMEM_DISABLE_NVLS=1) are left as they are.
"""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import torch
from torch import distributed

_WITHOUT_MULTICAST: Final = "TORCH_SYMM_MEM_DISABLE_MULTICAST"
_NO_MEMORY: Final = "out of memory"  # "CUDA driver error: out of memory", "CUDA out of memory. ..."
Made = TypeVar("Made")


class NoPeerAccess(RuntimeError):  # noqa: N818 (a state of the machine, as its users name it)
    """The GPUs of a group cannot address each other's memory; the message says which, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SymmetricMemory:
    """One allocation of the same size in every rank.

    views   of each rank's bytes, uint8, as seen from here; views[rank] is this rank's own
    owner   what keeps the allocation and the mappings alive
    """

    views: tuple[torch.Tensor, ...]
    owner: Any


def allocate(size_bytes: int, group: distributed.ProcessGroup) -> SymmetricMemory:
    """Zeroed bytes in every rank of the group; collective, and done in all ranks when it returns.

    Raises NoPeerAccess, in all ranks alike, where the GPUs cannot address each other's memory, and
    torch.OutOfMemoryError, in all ranks alike, where one of them has too little.
    """
    _check_peers(group)
    os.environ[_WITHOUT_MULTICAST] = "1"
    # Agreed upon first: in the rendezvous the others would wait for a rank that has no memory.
    own = _in_all(lambda: _empty(size_bytes), group)
    return _in_all(lambda: _mapped(own, group), group)


def _empty(size_bytes: int) -> torch.Tensor:
    from torch.distributed import _symmetric_memory  # noqa: PLC0415 (not in every build of torch)

    device = torch.device("cuda", torch.cuda.current_device())
    return _symmetric_memory.empty(size_bytes, dtype=torch.uint8, device=device)


def _mapped(own: torch.Tensor, group: distributed.ProcessGroup) -> SymmetricMemory:
    from torch.distributed import _symmetric_memory  # noqa: PLC0415 (not in every build of torch)

    handle = _symmetric_memory.rendezvous(own, group)
    views = tuple(handle.get_buffer(rank, own.shape, torch.uint8) for rank in range(group.size()))
    own.zero_()
    torch.cuda.synchronize(own.device)
    return SymmetricMemory(views=views, owner=(own, handle))


def _in_all(step: Callable[[], Made], group: distributed.ProcessGroup) -> Made:
    """What a step makes, once all ranks have made it; collective. Raises as `allocate` does."""
    failure = without_memory = None
    try:
        made = step()
    except (ImportError, AttributeError, RuntimeError) as error:
        # The driver's own error is no torch.OutOfMemoryError.
        if _NO_MEMORY in str(error).lower():
            without_memory = f"rank {group.rank()}: {error}"
        else:
            failure = f"torch {torch.__version__} maps no memory of peers: {error}"
    found = [text for text in _gathered(without_memory, group) if text is not None]
    _agree(failure, group)
    if found:
        raise torch.OutOfMemoryError(f"no symmetric memory: {found[0]}")
    return made


def _check_peers(group: distributed.ProcessGroup) -> None:
    """Raises NoPeerAccess unless all ranks have a GPU of their own, on one host, with access."""
    _agree(_obstacle(_gathered(_place(), group)), group)


def _place() -> tuple[str, int, str]:
    """(host, GPU, its uuid) of this rank; GPU -1 where there is none."""
    host = socket.gethostname()
    if not torch.cuda.is_available():
        return host, -1, ""
    device = torch.cuda.current_device()
    return host, device, str(torch.cuda.get_device_properties(device).uuid)


def _obstacle(places: list[tuple[str, int, str]]) -> str | None:
    """Why the ranks at these places cannot address each other's memory, as far as one can tell."""
    hosts = sorted({host for host, _, _ in places})
    if len(hosts) > 1:
        return f"ranks are on several hosts: {', '.join(hosts)}"
    without = [rank for rank, (_, device, _) in enumerate(places) if device < 0]
    if without:
        return f"rank {without[0]} has no GPU that torch can use"
    if len({uuid for _, _, uuid in places}) < len(places):
        return "two ranks use the same GPU; call torch.cuda.set_device first"
    devices = {device for _, device, _ in places}
    if len(devices) < len(places):  # each process sees its own GPU alone: rendezvous will tell
        return None
    own = torch.cuda.current_device()
    for other in sorted(devices - {own}):
        if not torch.cuda.can_device_access_peer(own, other):
            return f"GPU {own} cannot access the memory of GPU {other}"
    return None


def _agree(failure: str | None, group: distributed.ProcessGroup) -> None:
    """Raises NoPeerAccess in every rank where one of them failed; collective."""
    failures = [found for found in _gathered(failure, group) if found is not None]
    if failures:
        raise NoPeerAccess(
            f"no symmetric memory: {failures[0]}; use NCCL's all-gather and a product (fused=False)"
        )


def _gathered(value: Any, group: distributed.ProcessGroup) -> list[Any]:
    """The values of all ranks, in their order."""
    values: list[Any] = [None] * group.size()
    distributed.all_gather_object(values, value, group=group)
    return values
