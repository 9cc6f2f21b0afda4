"""The processes that share a point on several devices, as one of them sees the others.

Rank r works on device r. Providers have one process group (NCCL on GPUs, gloo on CPUs), control has
another of gloo, so that it never waits for a device. Rank 0 decides how often something runs:
otherwise one rank would wait in a collective that another skips.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import torch
from torch import distributed
from torch._C._distributed_c10d import FileStore

from roofcal.measure.failures import RankError, reason_of, status_of

# Collectives have no time limit of their own: the supervisor ends a group that hangs.
_TIMEOUT: Final = timedelta(hours=12)
Tell = Callable[..., None]


class SingleRank:
    """The only rank of a point on one device: it waits for no other."""

    rank = 0
    world_size = 1

    def broadcast(self, value: float) -> float:
        """The value of rank 0."""
        return value

    def all_gather(self, value: Any) -> list[Any]:
        """The values of all ranks, by rank."""
        return [value]

    def barrier(self) -> None:
        """Wait on the device until all ranks are here."""

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """A step that all ranks do: where one fails, all raise, and none goes on alone.

        Raises the rank's own error where all failed alike, else RankError.
        """
        yield


SINGLE_RANK: Final = SingleRank()


class Ranks(SingleRank):
    """One of several ranks, joined to the others through a file that all of them see.

    tell: reports an event to the supervisor. A rank that failed reports it before it gathers how
    the others fared, because they may be waiting for it.
    """

    def __init__(self, setup: Mapping[str, Any], device: torch.device, tell: Tell) -> None:
        self.rank, self.world_size = setup["rank"], setup["world_size"]
        self._device, self._tell = device, tell
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # one node; its name may not resolve
        # Without this the provider that runs first would decide whether the others use multicast.
        os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"
        cuda = device.type == "cuda"
        if cuda:
            torch.cuda.set_device(device)
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if cuda else "gloo",
            store=FileStore(setup["store"], self.world_size),
            rank=self.rank,
            world_size=self.world_size,
            timeout=_TIMEOUT,
            device_id=device if cuda else None,
        )
        self._control = distributed.new_group(backend="gloo", timeout=_TIMEOUT)
        self._flag = torch.zeros(1, device=device)

    def broadcast(self, value: float) -> float:
        """See SingleRank."""
        shared = torch.tensor([value], dtype=torch.float64)
        distributed.broadcast(shared, 0, group=self._control)
        return float(shared)

    def all_gather(self, value: Any) -> list[Any]:
        """See SingleRank."""
        values: list[Any] = [None] * self.world_size
        distributed.all_gather_object(values, value, group=self._control)
        return values

    def barrier(self) -> None:
        """See SingleRank. On GPUs this is a kernel that ends when all are here; no host waits."""
        if self._device.type == "cuda":
            distributed.all_reduce(self._flag)
        else:
            distributed.barrier(group=self._control)

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """See SingleRank."""
        own: Exception | None = None
        try:
            yield
        except Exception as error:  # noqa: BLE001 (whatever it is, the other ranks must know)
            own = error
            self._tell(trouble=reason_of(error), status=status_of(error))
        outcomes = self.all_gather(None if own is None else (status_of(own), reason_of(own)))
        self._tell(trouble=None)
        failed = [rank for rank, outcome in enumerate(outcomes) if outcome]
        if not failed:
            return
        if own is not None and outcomes == outcomes[:1] * self.world_size:
            raise own
        status, reason = outcomes[failed[0]]
        raise RankError(status, f"rank {failed[0]}: {reason}") from own
