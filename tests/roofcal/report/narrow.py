"""A made-up run of op mixed_gemm: int4 wins for few tokens, fp8 for many, 64 cannot be told."""

from typing import Any

from roofcal.core.records import PlanPoint
from tests.roofcal.report.synthetic import GPU, MadeUpRun, add_constants

G64, G128 = "int4_groupwise_g64", "int4_groupwise_g128"
TOKENS = (1, 16, 64, 256)
SIZES = ((3584, 8192), (28672, 8192))
# Seconds per 1e7 weights at each of TOKENS
PACE = {
    ("bf16", "cublaslt"): (5e-6, 5e-6, 5e-6, 6e-6),
    ("fp8_tensorwise", "cublaslt"): (3e-6, 3e-6, 3e-6, 3.5e-6),
    (G64, "triton"): (2e-6, 2.4e-6, 3.001e-6, 9e-6),
    (G64, "triton_chained"): (1.5e-6, 1.8e-6, 2.9e-6, 9e-6),
    (G64, "tinygemm"): (9e-6, 9e-6, 9e-6, 30e-6),
    (G128, "triton"): (1.8e-6, 2.2e-6, 3.1e-6, 9e-6),
}
QUANTISED = {"bf16": 0.0, "fp8_tensorwise": 0.037, G64: 0.1, G128: 0.11}
RATES = {"bytes_per_s": 4e12, "weights_per_s": 2e13, "flops_per_s": 5e14}


def narrow(m: int, n: int, k: int, recipe: str = G64, provider: str = "triton") -> PlanPoint:
    shape = {"m": m, "n": n, "k": k}
    return PlanPoint(
        op="mixed_gemm",
        provider=provider,
        recipe=recipe,
        shape=shape,
        device=GPU.device,
        sweeps=("decode",),
    )


def true_time(point: PlanPoint) -> float:
    """Seconds of a point in this world."""
    pace = PACE[point.recipe, point.provider][TOKENS.index(point.shape["m"])]
    return pace * point.shape["n"] * point.shape["k"] / 1e7


def narrow_run(without: tuple[str, ...] = (), *, roofs: bool = True) -> MadeUpRun:
    """A run of all of PACE but the providers `without`, with predictions 5 % too slow."""
    run = MadeUpRun(GPU)
    errors: dict[str, Any] = {}
    for recipe, provider in PACE:
        if provider in without:
            continue
        for n, k in SIZES:
            for m in TOKENS:
                point = narrow(m, n, k, recipe, provider)
                errors = {"relative_error": 1e-3 * m, "quantisation_error": QUANTISED[recipe]}
                run.measure(point, true_time(point), **errors)
                guess = 1.05 * true_time(point)
                run.predict(point, "calibrated", guess, low_s=guess / 1.1, high_s=guess * 1.1)
    add_constants(run)
    if roofs:
        for provider, slots in (("triton", 2e13), ("tinygemm", 8e11)):
            run.constant(f"mixed_gemm.{provider}.{G64}.narrow_family", 3.0, "code")  # turned_once
            run.constant(f"mixed_gemm.{provider}.{G64}.fixed_s", 2e-6, "s")
            for name, rate in (RATES | {"weights_per_s": slots}).items():
                run.constant(f"mixed_gemm.{provider}.{G64}.{name}", rate, "1/s")
    return run
