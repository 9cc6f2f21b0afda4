"""A made-up run of op linear: fast sums lose decibels by their length, blocks and bf16 none."""

from roofcal.core.records import PlanPoint, Protocol
from roofcal.ops.linear.spec import OUTPUTS, SUMMED, recipe
from tests.roofcal.report.synthetic import GPU, MadeUpRun

CUBE = (4096, 4096, 4096)
LONG = ((1024, 1024, 16384), (1024, 16384, 1024), (16384, 1024, 1024))
TWO_LEVEL = {
    kind: "+".join([f"{kind}*{kind}@two_level"] * 3) for kind in ("tensorwise", "axiswise")
}
RECIPES = (
    "bf16",
    "fp8_tensorwise",
    "fp8_axiswise",
    "fp8_axiswise_bf16_grad_weight",
    "fp8_blockwise_128x128",
)
DATA = {"normal": 28.5, "outlier_channels": 29.5, "heavy_tails": 28.0, "all_positive": 50.0}
SPEED = dict(zip(RECIPES, (1.0, 1.5, 1.3, 1.1, 0.7), strict=True))
LOST_PER_TERM = 12 / 16384  # dB, of positive data under fast accumulation


def linear(
    name: str, sizes: tuple[int, int, int], distribution: str = "normal", *, timed: bool = False
) -> PlanPoint:
    return PlanPoint(
        op="linear",
        provider="bf16_compile" if name == "bf16" else "triton",
        recipe=name,
        shape=dict(zip("mnk", sizes, strict=True)),
        device=GPU.device,
        protocol=Protocol(
            method="graph" if timed else "accuracy",
            distribution=distribution,  # type: ignore[arg-type]
        ),
        sweeps=("accuracy",),
    )


def true_db(point: PlanPoint, output: str) -> float:
    """The SQNR of an output in this world."""
    made_up = recipe(point.recipe).products[output]
    if not made_up.is_fp8:
        return 55.0
    base = DATA[point.protocol.distribution] + (made_up.a == "axiswise")
    fast = made_up.summed == "fast" and point.protocol.distribution == "all_positive"
    return base - (LOST_PER_TERM * point.shape[SUMMED[output]] if fast else 0.0)


def errors_of(point: PlanPoint) -> dict[str, float]:
    return {output: 10 ** (-true_db(point, output) / 20) for output in OUTPUTS}


def linear_run(*, timed: bool = True) -> MadeUpRun:
    """Accuracy of all recipes and data at a cube and a long sum, of positive data at all LONG."""
    run = MadeUpRun(GPU)
    planned = [linear(r, s, d) for s in (CUBE, LONG[0]) for d in DATA for r in RECIPES]
    recipes_by_accumulation = ("fp8_tensorwise", "fp8_axiswise", *TWO_LEVEL.values())
    planned += [linear(r, s, "all_positive") for s in LONG for r in recipes_by_accumulation]
    for point in {point.point_id: point for point in planned}.values():
        run.measure(
            point,
            0.0,
            latency_samples_s=(),
            warmup_samples=0,
            slice_starts=(),
            relative_error=max(errors_of(point).values()),
            output_errors=errors_of(point),
            kernel_names=(),
        )
    for name in RECIPES if timed else ():
        for side in (1024, 4096):
            point = linear(name, (side, side, side), timed=True)
            run.measure(point, 1e-12 * side**2.5 / SPEED[name], output_errors=errors_of(point))
    run.fail(linear("mxfp8", CUBE), "unsupported", "no such matrix instructions")
    return run
