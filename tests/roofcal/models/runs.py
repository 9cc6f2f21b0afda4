"""A calibration and a datasheet of the made-up GPU, and points to predict."""

from dataclasses import replace

from roofcal.core.devices import DeviceSpec, WaveDevice
from roofcal.core.records import Calibration, PlanPoint
from roofcal.fitting.intervals import encode_family
from roofcal.ops.cast import model as cast_model
from roofcal.ops.constants import current_equations
from roofcal.ops.gemm.model import CONSTANTS
from roofcal.ops.gemm.tiles import FAMILIES
from roofcal.ops.time_models import Sources
from tests.roofcal.calibrate.probe_runs import CAST_TRUTH, TRUTH, UNITS
from tests.roofcal.made_up_records import exactly, point_of

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


def calibration(device: str = "made-up", environment: str = "e1") -> Calibration:
    constants = {"compute_units": exactly(float(UNITS)), "launch_graph_s": exactly(1e-6, "s")}
    constants["dram_copy_bytes_per_s"] = exactly(4e12, "B/s", half=1e11)
    for recipe in ("bf16", "fp8_tensorwise"):
        prefix = f"gemm.cublaslt.{recipe}."
        constants[f"{prefix}tile_family"] = encode_family(FAMILIES, "any_tile_split_k")
        constants |= {prefix + name: exactly(TRUTH[name], CONSTANTS[name].unit) for name in TRUTH}
    errors = {
        f"gemm.cublaslt.{recipe}": {"mape": 0.05, "log_p95": 0.1}
        for recipe in ("bf16", "fp8_tensorwise")
    }
    constants["cache_bytes"] = exactly(float(50 << 20), "B")
    for provider, slower in (("torch_eager", 5.0), ("torch_compile", 1.0)):
        name = f"cast.{provider}.fp8_rowwise_dim0"
        truth = CAST_TRUTH | {"fixed_s": slower * CAST_TRUTH["fixed_s"]}
        constants[f"{name}.cast_family"] = exactly(0.0, "code")
        constants |= {
            f"{name}.{key}": exactly(value, cast_model.CONSTANTS[key].unit)
            for key, value in truth.items()
        }
        errors[name] = {"mape": 0.1, "log_p95": 0.2}
    return Calibration(
        device=device,
        environment_id=environment,
        constants=constants,
        probe_errors=errors,
        equations=current_equations(),
    )


WAVE = WaveDevice(
    device="made-up",
    compute_units=100,
    clock_hz=1e9,
    matrix_flops_per_clock={"bf16": 4000.0, "fp8": 8000.0},
    matrix_fraction=0.5,
    attention_fraction=0.5,
    tiles=((128, 128), (64, 64)),
    attention_rows=(64, 128),
    lds_bytes_per_clock=256.0,
    lds_bytes=1 << 17,
    lds_reads=(1.0, 1.0),
    l2_read_bytes_per_clock=8000.0,
    dram_bytes=100e9,
    dram_bytes_per_s=4e12,
    memory_fraction=0.5,
    product_memory_fraction=1.0,
    launch_s=1e-6,
    vector_per_clock=100.0,
    softmax_per_clock={
        "maximum": 100.0,
        "subtract": 100.0,
        "exponential": 20.0,
        "sum": 100.0,
        "scale": 100.0,
    },
    reduction_clocks=50.0,
    normalisation_reduction_clocks=100.0,
    activation_clocks_per_element={"silu": 0.2, "gelu": 0.4},
    link_bytes_per_s=400e9,
    link_fraction=0.5,
    link_latency_s=10e-6,
    link_peers=7,
    link_ranks=8,
)

DESCRIBED = replace(SPEC, wave=WAVE)
SOURCES = Sources(calibration=calibration(), spec=DESCRIBED)


def product(m: int, n: int, k: int, recipe: str = "bf16", provider: str = "cublaslt") -> PlanPoint:
    return point_of("gemm", recipe, {"m": m, "n": n, "k": k}, provider=provider)


def cast(rows: int, cols: int, recipe: str, provider: str = "torch_compile") -> PlanPoint:
    return point_of("cast", recipe, {"rows": rows, "cols": cols}, provider=provider)
