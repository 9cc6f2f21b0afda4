"""Formats by name: files of models of training and inference, and tables. See docs/exports.md."""

import json
import re
from dataclasses import asdict
from html import escape
from typing import Any, Final

import pandas as pd
import yaml

from roofcal.core.csv_files import defused
from roofcal.core.names import did_you_mean
from roofcal.core.units import GB, GIB, TERA, with_interval
from roofcal.export.subject import (
    LAUNCH,
    ExportError,
    Subject,
    Writer,
    comment_lines,
    python_literal,
)
from roofcal.ops.constants import family_of_constant
from roofcal.points.roofs import COPY, READ

# --- torchao's roofline of float8 -----------------------------------------------------------------


def write_torchao(subject: Subject) -> str:
    """The Python literal; raises ExportError where a constant or the datasheet is missing."""
    bf16, copy = subject.required_product("bf16"), subject.bandwidth(COPY)
    narrow = {dtype: subject.fastest_product(dtype) for dtype in ("fp8", "fp4")}
    measured = {dtype: rate for dtype, rate in narrow.items() if rate is not None}
    entry = {
        "bf16_peak_tops": bf16.peak,
        **{f"{dtype}_peak_tops": rate.value / bf16.fraction for dtype, rate in measured.items()},
        "pct_achievable_gemm_tops": bf16.fraction,
        "peak_mem_bw_bytes_sec": copy.peak,
        "pct_achievable_mem_bw": copy.fraction,
    }
    rates = [
        f"{rate.name}: {rate.value / TERA:.5g} TFLOP/s"
        f"{f' of {rate.printed / TERA:.5g} on the datasheet' if rate.printed else ''}"
        for rate in (bf16, *measured.values())
    ]
    comments = [
        "For torchao.testing.training.roofline_utils:",
        "gpu_name_to_specs.update(ast.literal_eval(text))",
        *subject.provenance("torchao"),
        "pct_achievable_gemm_tops: bf16 measured / peak; *_peak_tops times it are measured rates:",
        *rates,
        f"{copy.name}: {copy.value / GB:.4g} GB/s of {copy.peak / GB:.4g}",
    ]
    launch = subject.calibration.constants.get(LAUNCH)
    if launch is not None:
        comments.append(
            f"{LAUNCH}: KERNEL_LAUNCH_OVERHEAD_SEC of that module would be {launch.value!r}"
        )
    return python_literal({subject.device_name: entry}, comments)


# --- Calculon -------------------------------------------------------------------------------------

_GPUS_PER_NODE: Final = 8  # of systems/h100_80g_nvl8.json and a100_80g.json: HGX boards
_RING: Final = {
    "p2p": [1.0, None],
    "reduce_scatter": [1.0, -1],
    "all_gather": [1.0, -1],
    "all_reduce": [2.0, -1],
}


def write_calculon(subject: Subject) -> str:
    """The JSON object; raises ExportError where a constant, datasheet or link is missing."""

    def engine(peak: float, fraction: float) -> dict[str, Any]:
        return {"tflops": peak / TERA, "gflops_efficiency": [[0, fraction]]}

    bf16, fp8 = subject.required_product("bf16"), subject.fastest_product("fp8")
    matrix = {"bfloat16": engine(bf16.peak, bf16.fraction)}
    if (fp16_peak := subject.sheet.peak_flops_per_s.get("fp16")) is not None:
        matrix["float16"] = engine(fp16_peak, bf16.fraction)
    if fp8 is not None:
        matrix["float8"] = engine(fp8.peak, fp8.fraction)
    copy, scalar = subject.bandwidth(COPY), engine(subject.datasheet_rate("fp32"), 1.0)
    network = {
        "bandwidth": subject.link_bytes_per_s / GB,
        "efficiency": 1.0,
        "size": _GPUS_PER_NODE,
        "latency": 0.0,
        "ops": _RING,
        "must_be_filled": False,
        "processor_usage": 0.0,
    }
    system = {
        "roofcal": subject.provenance("calculon"),
        "matrix": matrix,
        "vector": dict.fromkeys(matrix, scalar),
        "mem1": {
            "GiB": subject.memory_bytes / GIB,
            "GBps": copy.peak / GB,
            "MB_efficiency": [[0, copy.fraction]],
        },
        "mem2": {"GiB": 0, "GBps": 1, "MB_efficiency": [[0, 1.0]]},
        "processing_mode": "roofline",
        "networks": [network],
    }
    return json.dumps(system, indent=2) + "\n"


# --- AIConfigurator -------------------------------------------------------------------------------

_FLOPS_KEYS: Final = {"bf16": "bfloat16", "int8": "int8", "fp8": "fp8", "fp4": "fp4"}
# Folders of systems/data in AIConfigurator, by our device; of others nothing was collected.
_DATA_FOLDERS: Final = {
    "nvidia-a100-sxm-80gb": "a100_sxm",
    "nvidia-h200": "h200_sxm",
    "nvidia-b200": "b200_sxm",
    "nvidia-b300": "b300_sxm",
    "nvidia-gb200": "gb200",
}
# Of its h200_sxm.yaml, not ours.
_NODE: Final = {
    "num_gpus_per_node": 8,
    "inter_node_bw": 50_000_000_000,
    "pcie_bw": 64_000_000_000,
    "p2p_latency": 0.00001,
}
_RUNTIME: Final = {
    "nccl_mem": {1: 0, 2: 358612992, 4: 411041792, 8: 411041792},
    "other_mem": 3758096384,
    "nccl_version": "2.26.2",
}


def write_aiconfigurator(subject: Subject) -> str:
    """The YAML file; raises ExportError where something is missing, and for other vendors."""
    spec, device = subject.sheet, subject.calibration.device
    if spec.vendor != "nvidia":
        raise ExportError(f"describes GPUs by their sm_version, and {device} is none of NVIDIA's")
    copy = subject.bandwidth(COPY)
    peaks = {key: spec.peak_flops_per_s.get(dtype) for dtype, key in _FLOPS_KEYS.items()}
    system = {
        "data_dir": f"data/{_DATA_FOLDERS.get(device, device)}",
        "gpu": {
            "mem_bw": copy.peak,
            "mem_bw_empirical_scaling_factor": copy.fraction,
            "mem_empirical_constant_latency": subject.constant(LAUNCH).value,
            "mem_capacity": subject.memory_bytes,
            **{f"{key}_tc_flops": peak for key, peak in peaks.items() if peak is not None},
            "power": spec.power_limit_w,
            "sm_version": int(spec.architecture.removeprefix("sm_")),
        },
        "node": {**_NODE, "intra_node_bw": subject.link_bytes_per_s},
        "misc": {
            **_RUNTIME,
            "vendor": spec.vendor,
            "architecture": spec.architecture,
            "name": subject.device_name,
        },
    }
    products = [subject.fastest_product(dtype) for dtype in _FLOPS_KEYS]
    comments = [
        "For aiconfigurator: systems/<name>.yaml",
        *subject.provenance("aiconfigurator"),
        "data_dir: its own tables of measured operators",
        "mem_bw, *_tc_flops, power, sm_version and intra_node_bw are of the datasheet",
        *(f"{rate.name} is {rate.value:.4g}" for rate in products if rate is not None),
        f"mem_bw_empirical_scaling_factor: {COPY} / mem_bw",
        f"mem_empirical_constant_latency: {LAUNCH}",
        f"not ours, as in its h200_sxm.yaml: {', '.join((*_NODE, *_RUNTIME))}",
        "set them for your machine",
    ]
    return comment_lines(comments) + yaml.safe_dump(system, sort_keys=False)


# --- llm-analysis and GenZ ------------------------------------------------------------------------

_MESSAGE_LATENCY_S: Final = 8e-6  # all files of llm_analysis/gpu_configs have it


def write_llm_analysis(subject: Subject) -> str:
    """The JSON object; raises ExportError where a constant, datasheet or link is missing."""
    values: dict[str, float | str] = {
        "name": subject.calibration.device,
        "mem_per_GPU_in_GB": subject.memory_bytes / GIB,
        "hbm_bandwidth_in_GB_per_sec": subject.bandwidth(READ).value / GB,
        "intra_node_bandwidth_in_GB_per_sec": subject.link_bytes_per_s / GB,
        "intra_node_min_message_latency": _MESSAGE_LATENCY_S,
        "peak_fp16_TFLOPS": subject.required_product("bf16").value / TERA,
    }
    rates = {
        "peak_i8_TFLOPS": subject.fastest_product("int8") or subject.fastest_product("fp8"),
        "peak_i4_TFLOPS": subject.fastest_product("fp4"),
    }
    values |= {key: rate.value / TERA for key, rate in rates.items() if rate is not None}
    return json.dumps(values, indent=4) + "\n"


def write_genz(subject: Subject) -> str:
    """The Python literal; raises ExportError where a constant, datasheet or link is missing."""
    entry = {
        "Flops": subject.required_product("bf16").value / TERA,
        "Memory_size": subject.memory_bytes / GIB,
        "Memory_BW": subject.bandwidth(READ).value / GIB,
        "ICN": subject.link_bytes_per_s / GIB,
        "real_values": True,
    }
    comments = [
        "For GenZ-LLM-Analyzer: system_configs.update(ast.literal_eval(text)); ceff=1, meff=1",
        "Its GB are 2**30 bytes; ICN is the datasheet's, everything else was measured",
        *subject.provenance("genz"),
    ]
    return python_literal({subject.device_name: entry}, comments)


# --- tables and plain data ------------------------------------------------------------------------


def constant_rows(subject: Subject) -> list[dict[str, Any]]:
    """The constants of the device, then those of each recipe, by name.

    `choice` names the family that a constant of unit "code" stands for. Raises ExportError where
    there are none.
    """
    constants = subject.calibration.constants
    if not constants:
        raise ExportError("this calibration holds no constants: none of its probes was measured")
    ends = ("value", "ci95_low", "ci95_high", "unit")
    return [
        {"name": name, **{end: getattr(constants[name], end) for end in ends}}
        | {"choice": family_of_constant(name, constants[name])}
        | {"evidence": constants[name].evidence}
        for name in sorted(constants, key=lambda name: ("." in name, name))
    ]


def write_csv(subject: Subject) -> str:
    """The table; floats as Python prints them, which reads back to the same bits."""
    calibration = subject.calibration
    frame = pd.DataFrame(constant_rows(subject))
    frame.insert(0, "device", calibration.device)
    frame.insert(1, "environment_id", calibration.environment_id)
    frame = frame.map(lambda cell: defused(cell) if isinstance(cell, str) else cell)
    return frame.to_csv(index=False, lineterminator="\n")


def plain_data(subject: Subject, form: str) -> dict[str, Any]:
    """The whole calibration as mappings, lists, text and numbers in a fixed order."""
    calibration = subject.calibration
    errors = calibration.probe_errors
    return {
        "made_by": subject.command(form),
        "device": calibration.device,
        "environment_id": calibration.environment_id,
        "environment": asdict(subject.environment) if subject.environment else None,
        "probe_points": calibration.probe_points,
        "seed": calibration.seed,
        "constants": constant_rows(subject),
        "probe_errors": {recipe: dict(sorted(errors[recipe].items())) for recipe in sorted(errors)},
    }


def write_json(subject: Subject) -> str:
    """The object; raises ExportError for a constant that is infinite or not a number."""
    data = plain_data(subject, "json")
    try:
        return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    except ValueError:
        raise ExportError(
            "cannot hold infinite numbers, and a constant of this calibration is one; "
            "export yaml or csv"
        ) from None


def write_yaml(subject: Subject) -> str:
    """The mapping below comments that say where it comes from."""
    data = plain_data(subject, "yaml")
    body = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
    return comment_lines(subject.provenance("yaml")) + str(body)


def _readable_frame(subject: Subject) -> pd.DataFrame:
    """The constants for people: value and interval share a unit that fits them."""
    rows = []
    for row in constant_rows(subject):
        numbers = row["value"], row["ci95_low"], row["ci95_high"]
        value, interval, unit = with_interval(*numbers, row["unit"])
        value, fitted = row["choice"] or value, re.sub(r"[{}']", "", row["evidence"])
        rows.append((row["name"], value, interval, unit, fitted))
    columns = ["constant", "value", "95 % interval", "unit", "fitted on"]
    return pd.DataFrame(rows, columns=columns, dtype=object)


def write_markdown(subject: Subject) -> str:
    """A sentence on where it comes from, and the table."""
    calibration = subject.calibration
    head = (
        f"Calibrated constants of {calibration.device} in {calibration.environment_id}"
        f" ({calibration.probe_points} probe points, seed {calibration.seed}):"
        f" `{subject.command('markdown')}`"
    )
    # Cells are text alone: what a stranger wrote makes no column, link or HTML.
    frame = _readable_frame(subject).map(lambda text: escape(" ".join(text.split()), quote=False))
    frame = frame.replace(r"([|\[\]`])", r"\\\1", regex=True)
    frame["constant"] = "`" + frame["constant"] + "`"
    table = frame.to_markdown(
        index=False,
        disable_numparse=True,  # 4.280 is text: tabulate would write 4.28
        colalign=("left", "right", "right", "left", "left"),
    )
    return f"{head}\n\n{table}\n"


def write_latex(subject: Subject) -> str:
    """A longtable; comments say where it comes from."""
    calibration = subject.calibration
    frame = _readable_frame(subject).drop(columns="fitted on")
    frame["95 % interval"] = frame["95 % interval"].str.replace(" to ", "--")
    frame.columns = [title.capitalize() for title in frame.columns]
    title = f"Calibrated constants of {calibration.device} in {calibration.environment_id}."
    table = frame.to_latex(
        index=False,
        longtable=True,
        escape=True,
        # pandas escapes cells, and no caption
        caption=re.sub(r"([&%$#_{}])", r"\\\1", title),
        column_format=r"@{}>{\ttfamily}lrrl@{}",
    )
    packages = r"needs \usepackage{array}, \usepackage{booktabs} and \usepackage{longtable}"
    comments = comment_lines([*subject.provenance("latex"), packages], mark="%")
    return comments + table.replace("µ", r"\textmu ")


# --- by name --------------------------------------------------------------------------------------

FORMATS: Final[dict[str, Writer]] = {
    "torchao": write_torchao,
    "calculon": write_calculon,
    "aiconfigurator": write_aiconfigurator,
    "llm-analysis": write_llm_analysis,
    "genz": write_genz,
    "csv": write_csv,
    "json": write_json,
    "yaml": write_yaml,
    "markdown": write_markdown,
    "latex": write_latex,
}


def check_format(name: str) -> None:
    """Raises ExportError with the nearest name and all that there are for an unknown format."""
    if name not in FORMATS:
        suggestion = did_you_mean(name.lower(), FORMATS, otherwise=";")
        raise ExportError(f"unknown format '{name}'{suggestion} there are {', '.join(FORMATS)}")


def export(name: str, subject: Subject) -> str:
    """The file of a format; raises ExportError naming the format and what it lacks."""
    check_format(name)
    try:
        return FORMATS[name](subject)
    except ExportError as error:
        raise ExportError(f"format {name}: {error}") from None
