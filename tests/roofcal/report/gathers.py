"""A made-up run of all-gathers with their product: all but a start overlaps, ranks differ."""

from dataclasses import replace

import numpy as np

from roofcal.core.records import PlanPoint, Protocol
from roofcal.ops.all_gather_matmul.model import received_bytes
from roofcal.ops.probe_link.model import COLLECTIVES, share
from tests.roofcal.report.synthetic import CPU, GPU, MadeUpRun

NINE = tuple(
    (m, n, k) for n, k in ((1792, 4096), (3584, 8192), (6656, 16384)) for m in (4096, 8192, 16384)
)
WORLD_SIZES = (2, 4, 8)
RATE = {"bf16": 700e12, "fp8_axiswise": 1300e12}
NCCL = (30e-6, 300e9)  # latency, bytes per second
DIRECT = (16e-6, 390e9)
START = 16e-6
OWN = 1.03  # our product over the library's
TORCH = 1.2  # torch's fused op over ours
HOST = {"symm_mem_fused": 350e-6, "torch_fused": 700e-6}  # the least an eager call takes
MODEL_ERROR = 0.05
APART = 0.02  # slowest rank over fastest, less 1
SIZES = tuple(4096 * 8**power for power in range(7))


def gathered(
    provider: str,
    sizes: tuple[int, int, int],
    world_size: int = 8,
    recipe: str = "bf16",
    *,
    eager: bool = False,
) -> PlanPoint:
    return PlanPoint(
        op="all_gather_matmul",
        provider=provider,
        recipe=recipe,
        shape=dict(zip("mnk", sizes, strict=True)),
        device=GPU.device,
        world_size=world_size,
        protocol=Protocol(method="events_flush" if eager else "graph"),
        sweeps=("nine",),
    )


def product_s(point: PlanPoint) -> float:
    m, n, k = (point.shape[axis] for axis in "mnk")
    return 2.0 * m * n * k / RATE[point.recipe]


def gather_s(point: PlanPoint, line: tuple[float, float] = NCCL) -> float:
    m, k = (np.array([float(point.shape[axis])]) for axis in "mk")
    moved = received_bytes(point.recipe, m, k, point.world_size)
    return float(line[0] + moved[0] / line[1])


def true_time(point: PlanPoint) -> float:
    """The time of a point in this world."""
    product, gather = product_s(point), gather_s(point)
    follows = gather_s(point, DIRECT) - DIRECT[0] + product / point.world_size
    ours = START + max(OWN * product, follows)
    seconds_of_provider = {
        "gemm_only": product,
        "all_gather_only": gather,
        "nccl_then_gemm": product + gather,
        "symm_mem_fused": ours,
        "torch_fused": TORCH * ours,
    }
    eager = point.protocol.method != "graph"
    return max(seconds_of_provider[point.provider], HOST.get(point.provider, 0.0) if eager else 0.0)


PROVIDERS = ("nccl_then_gemm", "torch_fused", "symm_mem_fused", "gemm_only", "all_gather_only")


def add_gathers(run: MadeUpRun) -> None:
    """All providers on the nine shapes, captured in both recipes, eager in bf16."""
    for size in WORLD_SIZES:
        for recipe, eager in (("bf16", False), ("bf16", True), ("fp8_axiswise", False)):
            for sizes in NINE:
                for provider in PROVIDERS:
                    point = gathered(provider, sizes, size, recipe, eager=eager)
                    time = true_time(point)
                    ranks = tuple(time / (1 + APART * r / (size - 1)) for r in range(size))
                    run.measure(point, time, rank_medians_s=ranks)
                    captured = true_time(gathered(provider, sizes, size, recipe))
                    run.predict(point, "calibrated", captured * (1 + MODEL_ERROR))
    run.fail(gathered("torch_fused", (512, 3584, 8192)), "unsupported", "no peer access")


def add_links(run: MadeUpRun) -> None:
    """A probe of every collective by NCCL and symmetric memory, and the constants behind it."""
    for size in WORLD_SIZES:
        for recipe, name in COLLECTIVES.items():
            for provider, (latency, rate) in (("nccl", NCCL), ("symm_mem", DIRECT)):
                if recipe == "copy_engine_peer" and provider == "nccl":
                    continue
                part = share(name, size)
                for bytes_ in SIZES:
                    run.measure(
                        _probe(recipe, provider, bytes_, size), latency + part * bytes_ / rate
                    )
                direct = provider == "symm_mem" and name != "send"
                prefix = f"link.{name}{'_symm_mem' if direct else ''}.{size}"
                run.constant(f"{prefix}.bytes_per_s", rate, "B/s")
                run.constant(f"{prefix}.latency_s", latency, "s")


def _probe(recipe: str, provider: str, size_bytes: int, world_size: int) -> PlanPoint:
    return PlanPoint(
        op="probe_link",
        provider=provider,
        recipe=recipe,
        shape={"size_bytes": size_bytes},
        device=GPU.device,
        world_size=world_size,
        protocol=Protocol(cache="hot"),
    )


def gathered_run() -> MadeUpRun:
    """Gathers and links."""
    run = MadeUpRun(GPU)
    add_gathers(run)
    add_links(run)
    return run


def gloo_run() -> MadeUpRun:
    """Processes with gloo on a CPU, two and four of them; links of two alone are calibrated."""
    run = MadeUpRun(CPU)
    for size in (2, 4):
        seconds_by_provider = {"gloo_then_gemm": 3e-3, "gemm_only": 1e-3, "all_gather_only": 2e-3}
        for provider, seconds in seconds_by_provider.items():
            point = replace(
                gathered(provider, (256, 256, 512), size),
                device=CPU.device,
                protocol=Protocol(method="wall", cache="hot"),
            )
            run.measure(point, seconds, rank_medians_s=(seconds, seconds * 0.9))
    for name, (value, unit) in {"bytes_per_s": (1e9, "B/s"), "latency_s": (1e-4, "s")}.items():
        run.constant(f"link.all_gather.2.{name}", value, unit, evidence="probe_link, provider gloo")
    return run
