"""A calibration and a datasheet of the made-up GPU, and points to predict."""

from roofcal.devices import DeviceSpec
from roofcal.ops.cast import time_model as cast_model
from roofcal.ops.gemm.time_model import CONSTANTS, FAMILIES
from roofcal.predict.sources import Sources
from roofcal.records import Calibration, Ceiling, PlanPoint
from tests.roofcal.calibrate.probe_runs import CAST_TRUTH, TRUTH, UNITS

SPEC = DeviceSpec(
    device="made-up",
    vendor="nvidia",
    names=("Made Up",),
    architecture="sm_90",
    compute_units=UNITS,
    peak_flops_per_s={"bf16": 1e15, "fp8": 2e15},
    dram_bytes_per_s=4.8e12,
    dram_bytes=141 * 10**9,
    l2_bytes=50 << 20,
    link_bytes_per_s=None,
    power_limit_w=700.0,
    sources={},
)


def exactly(value: float, unit: str = "1") -> Ceiling:
    return Ceiling(value=value, ci95_low=value, ci95_high=value, unit=unit, evidence="made up")


def calibration(device: str = "made-up", environment: str = "e1") -> Calibration:
    constants = {"compute_units": exactly(float(UNITS)), "launch_graph_s": exactly(1e-6, "s")}
    copy = Ceiling(value=4e12, ci95_low=3.9e12, ci95_high=4.1e12, unit="B/s", evidence="made up")
    constants["dram_copy_bytes_per_s"] = copy
    for recipe in ("bf16", "fp8_tensorwise"):
        prefix = f"gemm.{recipe}."
        code = FAMILIES["any_tile_split_k"].code
        constants[f"{prefix}tile_family"] = exactly(float(code))
        constants |= {prefix + name: exactly(TRUTH[name], CONSTANTS[name]) for name in CONSTANTS}
    errors = {r: {"mape": 0.05, "log_p95": 0.1} for r in ("bf16", "fp8_tensorwise")}
    constants["cache_bytes"] = exactly(float(50 << 20), "B")
    for provider, slower in (("torch_eager", 5.0), ("torch_compile", 1.0)):
        name = f"cast.{provider}.fp8_rowwise_dim0"
        truth = CAST_TRUTH | {"fixed_s": slower * CAST_TRUTH["fixed_s"]}
        constants[f"{name}.cast_family"] = exactly(0.0, "code")
        units = cast_model.CONSTANTS
        constants |= {f"{name}.{key}": exactly(truth[key], unit) for key, unit in units.items()}
        errors[name] = {"mape": 0.1, "log_p95": 0.2}
    return Calibration(
        device=device, environment_id=environment, constants=constants, probe_errors=errors
    )


SOURCES = Sources(calibration=calibration(), spec=SPEC)


def product(m: int, n: int, k: int, recipe: str = "bf16") -> PlanPoint:
    shape = {"m": m, "n": n, "k": k}
    return PlanPoint(op="gemm", provider="cublaslt", recipe=recipe, shape=shape, device="made-up")


def cast(rows: int, cols: int, recipe: str, provider: str = "torch_compile") -> PlanPoint:
    shape = {"rows": rows, "cols": cols}
    return PlanPoint(op="cast", provider=provider, recipe=recipe, shape=shape, device="made-up")
