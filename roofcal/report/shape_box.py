"""What a page needs to rank recipes and providers at any shape: constants, limits, measured points.

A browser evaluates the equations of roofcal.ops.gemm.model and roofcal.ops.mixed_gemm.model with it
(reports/templates/product_model.js); a test holds it to Python at random shapes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from roofcal.ask.beyond_probes import FAR
from roofcal.ask.linear_options import FARTHEST
from roofcal.ask.measured import MeasuredPoint, by_key, measured_point
from roofcal.core.csv_files import LARGEST_SIZE
from roofcal.core.recipes import BITS, RECIPES, Operand
from roofcal.core.records import Calibration
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.constants import (
    calibrated_pairs,
    calibrated_providers,
    decode_family,
    values_of_pair,
)
from roofcal.ops.gemm import model as gemm
from roofcal.ops.gemm.tiles import RULES
from roofcal.ops.kernel_rules import int4
from roofcal.ops.mixed_gemm import model as mixed_gemm
from roofcal.ops.predictions import (
    GROWTH,
    MOST_DOUBLINGS,
    MOST_FACTOR,
    NOTICEABLE,
    calibrated_roofs,
    doublings_outside,
    half_width,
    has_probes,
)
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import ok_rows, standard_protocol

_MODELS: Final[Mapping[str, Any]] = {"gemm": gemm, "mixed_gemm": mixed_gemm}
_DIGITS: Final = 6  # of a measured time
_FIRST_SIDES: Final = (4096, 2048, 1024, 512, 256, 128, 64)


def shape_box_data(analysis: Analysis, anchor: str) -> dict[str, Any] | None:
    """Everything that is known of products on a device, as JSON; None without a calibration.

    options   every calibrated pair of provider and recipe: its equation and constants, the formats
              of its operands, half-widths of its interval by group of shapes, the groups that no
              probe is of, roofs, its limits of shapes, and the span of its probes
    measured  settled points, one per option and shape, by column; `option` is a place in `options`
    """
    calibration = analysis.run.calibration
    if calibration is None:
        return None
    options = [
        _option(calibration, op, provider, recipe)
        for op in _MODELS
        for provider, recipe in calibrated_pairs(calibration.constants, op)
        if f"{op}.{provider}.{recipe}" in calibration.probe_errors
    ]
    if not options:
        return None
    places = {(o["op"], o["provider"], o["recipe"]): place for place, o in enumerate(options)}
    names = ("option", "m", "n", "k", "s", "low_s", "high_s", "predicted_s")
    measured: dict[str, list[Any]] = {name: [] for name in names}
    for point in by_key(measured_points(analysis)).values():
        # narrow weights are measured beside plain products, whose constants are those of gemm
        keys = ((op, point.provider, point.recipe) for op in (point.op, *_MODELS))
        place = next((places[key] for key in keys if key in places), None)
        if place is not None:
            times = (point.median_s, point.low_s, point.high_s, point.predicted_s)
            rounded = (None if s is None else float(f"{s:.{_DIGITS}g}") for s in times)
            cells = (place, *point.shape.values(), *rounded)
            for name, cell in zip(names, cells, strict=True):
                measured[name].append(cell)
    return {
        "device": analysis.device,
        "anchor": anchor,
        "name": f"{analysis.run.environment.device_name}, {analysis.environment_name}",
        "compute_units": int(calibration.constants["compute_units"].value),
        "baseline": BY_NAME["gemm"].baseline_recipe,
        "largest_size": LARGEST_SIZE,
        "first_side": _first_side(calibration),
        "farthest_doublings": FARTHEST,
        "noticeable_doublings": NOTICEABLE,
        "growth_outside": GROWTH,
        "most_doublings": MOST_DOUBLINGS,
        "most_factor": MOST_FACTOR,
        "far_doublings": FAR,
        "dram_bytes": analysis.spec.dram_bytes if analysis.spec else None,
        "datasheet": analysis.device,
        "options": options,
        "measured": measured,
    }


def _first_side(calibration: Calibration) -> int:
    """The side of the cube that the page shows first: the largest whose bf16 product is probed.

    A processor has probes of smaller products than a GPU.
    """
    op = BY_NAME["gemm"]
    baseline = str(op.baseline_recipe)
    providers = calibrated_providers(calibration.constants, "gemm", baseline)
    for side in _FIRST_SIDES:
        sizes = dict.fromkeys(op.axes, float(side))
        for provider in providers:
            outside = doublings_outside(calibration, op, provider, baseline, sizes)
            if outside is not None and not outside.any():
                return side
    return _FIRST_SIDES[0]


def _option(calibration: Calibration, op: str, provider: str, recipe: str) -> dict[str, Any]:
    model, name = _MODELS[op], f"{op}.{provider}.{recipe}"
    values = values_of_pair(calibration.constants, name, (model.FAMILY, *model.CONSTANTS))
    family = model.FAMILIES[decode_family(model.FAMILIES, values.pop(model.FAMILY))]
    spec, span = RECIPES[recipe], calibration.probe_spans.get(name)
    return {
        "op": op,
        "provider": provider,
        "recipe": recipe,
        **family_record(family),
        "constants": values,
        "a": _operand(spec.a),
        "b": _operand(spec.b),
        "out_bits": BITS[spec.out],
        "half_widths": {group: half_width(calibration, name, group) for group in model.GROUPS},
        "unprobed": {
            group: words
            for group, words in model.GROUPS.items()
            if not has_probes(calibration, name, group)
        },
        "roofs": calibrated_roofs(calibration, BY_NAME[op], provider, recipe),
        "multiples": dict(BY_NAME[op].size_multiples(provider, recipe)),
        "least_sizes": dict(BY_NAME[op].least_sizes(provider, recipe)),
        "span": span and dict(span),
    }


def family_record(family: Any) -> dict[str, Any]:
    """How a provider cuts a product, of the FAMILIES of an op, and the rule of our own kernels."""
    name, rule = getattr(family, "rule", ""), None
    if name in RULES:
        tiles, narrow = RULES[name]
        rule = {
            "tiles": [(tile.m, tile.n, tile.rate) for tile in tiles],
            "few_rows_columns": narrow.n,
        }
    if name in int4.RULES:
        rows = [
            {
                "most_tokens": row.most_tokens,
                "least_group": row.least_group,
                "most_weights": row.most_weights,
                "most_rows": row.most_rows,
                "blocks": [int4.figures(config) for config in row.configs],
                "otherwise": [int4.figures(config) for config in row.otherwise],
            }
            for row in int4.RULES[name]
        ]
        # a row that differs from a wider one below only in its kernels adds nothing
        pairs = zip(rows, [*rows[1:], None], strict=True)
        wider = [after and {**after, "least_group": row["least_group"]} for row, after in pairs]
        rule = {"rows": [row for row, below in zip(rows, wider, strict=True) if row != below]}
    return {"family": asdict(family), "rule": rule}


def _operand(operand: Operand) -> dict[str, Any]:
    bits, scale = {"bits": BITS[operand.dtype]}, operand.scale
    if scale is None:
        return bits
    per_scale = 2 if operand.zero_point else 1
    sizes = {"scale_bits": BITS[scale.dtype], "rows": scale.rows, "cols": scale.cols}
    return bits | sizes | {"per_scale": per_scale}


def measured_points(analysis: Analysis) -> Iterator[MeasuredPoint]:
    """Settled points of the ops of _MODELS and of their probes."""
    for op in OPS:
        frame = analysis.frames.get(op.name)
        if op.folder not in _MODELS or frame is None:
            continue
        rows = ok_rows(frame[standard_protocol(frame.assign(repeat=0))])  # sentinels, too
        for row in rows[rows["world_size"] == 1].to_dict("records"):
            yield replace(measured_point(op.name, row), op=op.folder)
