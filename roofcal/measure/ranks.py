"""The processes that share a point on several devices, as one of them sees the others.

Rank r works on device r. Two groups: the providers' own (NCCL on GPUs, gloo on CPUs), and one of
gloo for control, so that agreeing on something never waits for a device. Every decision about how
often something runs is rank 0's; otherwise one rank would wait in a collective that another skips.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import torch
from torch import distributed
from torch._C._distributed_c10d import FileStore

from roofcal.measure.failures import RankError, reason_of, status_of

_PATIENCE: Final = timedelta(hours=12)  # the supervisor knows when it is enough, and for whom
Tell = Callable[..., None]


class Alone:
    """The only rank of a point on one device: there is nobody to ask or to wait for."""

    rank = 0
    world_size = 1

    def agree(self, value: float) -> float:
        """The value of rank 0."""
        return value

    def every(self, value: Any) -> list[Any]:
        """The values of all ranks, by rank."""
        return [value]

    def align(self) -> None:
        """Let no rank's device go on before all have come here."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """A step of all ranks: where one fails, all raise, and none goes on alone.

        Raises the rank's own error where all failed alike, else RankError.
        """
        yield


ALONE: Final = Alone()


class Ranks(Alone):
    """One of several ranks, joined to the others through a file that all of them see.

    tell: reports an event to the supervisor; a rank that failed says so before it asks how the
    others fared, because they may be waiting for it.
    """

    def __init__(self, setup: Mapping[str, Any], device: torch.device, tell: Tell) -> None:
        self.rank, self.world_size = setup["rank"], setup["world_size"]
        self._device, self._tell = device, tell
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # one node; its name may not resolve
        # Providers of symmetric memory are measured without multicast, whichever comes first here.
        os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"
        cuda = device.type == "cuda"
        if cuda:
            torch.cuda.set_device(device)
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if cuda else "gloo",
            store=FileStore(setup["store"], self.world_size),
            rank=self.rank,
            world_size=self.world_size,
            timeout=_PATIENCE,
            device_id=device if cuda else None,
        )
        self._control = distributed.new_group(backend="gloo", timeout=_PATIENCE)
        self._flag = torch.zeros(1, device=device)

    def agree(self, value: float) -> float:
        """See Alone."""
        shared = torch.tensor([value], dtype=torch.float64)
        distributed.broadcast(shared, 0, group=self._control)
        return float(shared)

    def every(self, value: Any) -> list[Any]:
        """See Alone."""
        values: list[Any] = [None] * self.world_size
        distributed.all_gather_object(values, value, group=self._control)
        return values

    def align(self) -> None:
        """See Alone. On GPUs a kernel that ends when all have met; the host does not wait."""
        if self._device.type == "cuda":
            distributed.all_reduce(self._flag)
        else:
            distributed.barrier(group=self._control)

    @contextmanager
    def together(self) -> Iterator[None]:
        """See Alone."""
        own: Exception | None = None
        try:
            yield
        except Exception as error:  # noqa: BLE001 (whatever it is, the other ranks must know)
            own = error
            self._tell(trouble=reason_of(error), status=status_of(error))
        outcomes = self.every(None if own is None else (status_of(own), reason_of(own)))
        self._tell(trouble=None)
        failed = [rank for rank, outcome in enumerate(outcomes) if outcome]
        if not failed:
            return
        if own is not None and outcomes == outcomes[:1] * self.world_size:
            raise own
        status, reason = outcomes[failed[0]]
        raise RankError(status, f"rank {failed[0]}: {reason}") from own


def slowest(team: Alone, samples: Sequence[float]) -> tuple[list[float], list[float]]:
    """(slowest, fastest) rank's time of each sample; all ranks have taken equally many."""
    by_sample = list(zip(*team.every(list(samples)), strict=True))
    return [max(times) for times in by_sample], [min(times) for times in by_sample]
