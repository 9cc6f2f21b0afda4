"""Two processes that train Float8Linear together, and compare with one process on all rows."""

from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from kernels.linear.layer import convert_linears
from tests.kernels.gather.gathered_ranks import leave_together

RECIPES = ("tensorwise", "blockwise")
ROWS = 32  # of each process


def model_on(device: torch.device, recipe: str) -> torch.nn.Module:
    """The same in every process."""
    torch.manual_seed(7)
    layers = (torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 32))
    return convert_linears(torch.nn.Sequential(*layers), recipe).to(device)


def rows_of(rank: int, device: torch.device) -> torch.Tensor:
    """The rows that a process trains on."""
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(ROWS, 64, generator=generator).to(device)


def mean_gradients(recipe: str, device: torch.device, world: int) -> list[torch.Tensor]:
    """What training on each process's rows alone gives, as a mean: scales are of these rows."""
    model = model_on(device, recipe)
    for rank in range(world):
        (model(rows_of(rank, device)).float().square().mean() / world).backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


def train_once(model: torch.nn.Module, rank: int, device: torch.device) -> list[torch.Tensor]:
    """Gradients, whole, after a step on this process's rows."""
    model(rows_of(rank, device)).float().square().mean().backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return [g.full_tensor() if isinstance(g, DTensor) else g for g in grads]


def main(rank: int, world: int, folder: str, what: str, _seed: int) -> None:
    """Be one process."""
    has_gpus = torch.cuda.device_count() >= world
    device = torch.device("cuda", rank) if has_gpus else torch.device("cpu")
    if has_gpus:
        torch.cuda.set_device(device)
    distributed.init_process_group(
        "nccl" if has_gpus else "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=60),
    )
    for recipe in RECIPES:
        expected = mean_gradients(recipe, device, world)
        model = model_on(device, recipe)
        if what == "ddp":
            model = DistributedDataParallel(model)
        else:
            for layer in (*model.children(), model):
                fully_shard(layer, mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.float32))
        for actual, wanted in zip(train_once(model, rank, device), expected, strict=True):
            torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-6)
    leave_together(Path(folder), rank, world)
