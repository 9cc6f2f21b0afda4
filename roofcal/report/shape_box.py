"""The shape box: what a page needs to rank recipes at any shape, and its first answer.

A browser evaluates the equations of roofcal.ops.gemm.model, roofcal.ops.mixed_gemm.model and
roofcal.ops.cast.model with it (reports/templates/product_model.js); tests hold it to Python at
random shapes. The decision on the shape that the box shows first is that of `roofcal advise`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, Final

from roofcal.ask.advice import Decision, decided_advice
from roofcal.ask.advise import Adviser
from roofcal.ask.linear_options import BASELINE, FARTHEST, NO_CASTS, Option
from roofcal.ask.measured import MeasuredPoint, by_key, measured_point
from roofcal.ask.shape_limits import FAR
from roofcal.core.csv_files import LARGEST_SIZE
from roofcal.core.recipes import BITS, CAST_RECIPES, RECIPES, Operand
from roofcal.core.records import Calibration
from roofcal.models import calibrated
from roofcal.models.errors import PredictError
from roofcal.ops import BY_NAME, OPS, constants, predictions
from roofcal.ops.cast import model as cast
from roofcal.ops.cast.spec import read_bytes
from roofcal.ops.gemm import model as gemm
from roofcal.ops.kernel_rules import gemm as gemm_rule
from roofcal.ops.kernel_rules import int4
from roofcal.ops.mixed_gemm import model as mixed_gemm
from roofcal.ops.spec import Shape
from roofcal.ops.time_models import Sources
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import ok_rows, standard_protocol

_PRODUCTS: Final[Mapping[str, Any]] = {"gemm": gemm, "mixed_gemm": mixed_gemm}
_MODELS: Final[Mapping[str, Any]] = {**_PRODUCTS, "cast": cast}
_DIGITS: Final = 6  # of a measured time
# A prefill through a layer of a model of 70B parameters, as README.md asks about, then cubes.
_FIRST_SHAPES: Final[tuple[Shape, ...]] = (
    {"m": 4096, "n": 28672, "k": 8192},
    *(dict.fromkeys("mnk", side) for side in (4096, 2048, 1024, 512, 256, 128, 64)),
)


class ShapeBox:
    """What the calibrated model says of linears on the device of a run, forward.

    The weights are cast beforehand, as `roofcal advise` has it unless it is told otherwise.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._calibration = analysis.run.calibration
        sources = Sources(calibration=self._calibration, spec=analysis.spec)
        measured = by_key(measured_points(analysis))
        self._adviser = Adviser(calibrated, sources, "forward", "cached", measured)
        self._measured = measured.values()

    @cached_property
    def first_shape(self) -> Shape:
        """The shape that is shown first, the largest within the probes of bf16 and the best recipe.

        A processor has probes of smaller products than a GPU.
        """
        if not self._linears:
            return _FIRST_SHAPES[0]
        advices = self._adviser.advices(_FIRST_SHAPES)
        for shape, advice in zip(_FIRST_SHAPES, advices, strict=True):
            if isinstance(advice, PredictError):
                continue
            shown = [advice.best, advice.best_by_recipe.get(BASELINE)]
            if all(one and not (one.extrapolated_doublings or one.unprobed) for one in shown):
                return shape
        return _FIRST_SHAPES[0]

    @cached_property
    def decision(self) -> Decision | None:
        """The recipe for the first shape; None where nothing can be ranked."""
        try:
            return decided_advice(self._adviser, self.first_shape)[1]
        except PredictError:
            return None

    def data(self, anchor: str) -> dict[str, Any] | None:
        """Everything that is known of products on the device, as JSON; None without a calibration.

        options   every calibrated pair of provider and recipe: its equation and constants, the
                  formats of its operands, half-widths of its interval by group of shapes, the
                  groups that no probe is of, roofs, its limits of shapes, the span of its probes,
                  and `ways` to cast x for it: places in `casts`. None where no cast is known
        casts     the same of casts of x
        measured, measured_casts  settled points, one per option and shape, by column; `option` is a
                  place in `options` or `casts`
        """
        calibration, analysis = self._calibration, self._analysis
        pairs = [
            (op, provider, recipe)
            for op in _PRODUCTS
            for provider, recipe in (
                constants.calibrated_pairs(calibration.constants, op) if calibration else ()
            )
        ]
        if calibration is None or not (pairs := _with_errors(calibration, pairs)):
            return None
        ways: dict[tuple[str, str, str], list[list[tuple[str, str, str]]]] = {}
        for option in self._linears:
            # forward has no other product and no cast of w
            product, *of_x = ((one.op, one.provider, one.recipe) for one in option.parts)
            ways.setdefault(product, []).append(of_x)
        casts = [part for of_product in ways.values() for way in of_product for part in way]
        casts = _with_errors(calibration, dict.fromkeys(casts))
        options = [
            _option(calibration, *pair)
            | {
                "ways": [
                    [casts.index(one) for one in way]
                    for way in ways.get(pair, [])
                    if set(way) <= set(casts)
                ]
            }
            for pair in pairs
        ]
        return {
            "device": analysis.device,
            "anchor": anchor,
            "name": f"{analysis.device_name}, {analysis.environment_name}",
            "compute_units": int(calibration.constants["compute_units"].value),
            "baseline": BASELINE,
            "largest_size": LARGEST_SIZE,
            "first_shape": dict(self.first_shape),
            "farthest_doublings": FARTHEST,
            "noticeable_doublings": predictions.NOTICEABLE,
            "growth_outside": predictions.GROWTH,
            "most_doublings": predictions.MOST_DOUBLINGS,
            "most_factor": predictions.MOST_FACTOR,
            "far_doublings": FAR,
            "dram_bytes": analysis.spec.dram_bytes if analysis.spec else None,
            "datasheet": analysis.device,
            "without_casts": NO_CASTS,
            "options": options,
            "casts": [_option(calibration, *pair) for pair in casts],
            "measured": self._columns(pairs, ("m", "n", "k")),
            "measured_casts": self._columns(casts, ("rows", "cols")),
        }

    @property
    def _linears(self) -> Sequence[Option]:
        """Linears of a product and its casts; none where no cast or no bf16 is calibrated."""
        try:
            return self._adviser.options
        except PredictError:  # the box shows products alone
            return ()

    def _columns(
        self, pairs: Sequence[tuple[str, str, str]], axes: Sequence[str]
    ) -> dict[str, list[Any]]:
        """The measured points of pairs of op, provider and recipe, by column."""
        columns: dict[str, list[Any]] = {
            name: [] for name in ("option", *axes, "s", "low_s", "high_s", "predicted_s")
        }
        for point in self._measured:
            # narrow weights are measured beside plain products, whose constants are those of gemm
            ops = (BY_NAME[point.op].folder, *_MODELS)
            keys = [(op, point.provider, point.recipe) for op in ops]
            place = next((pairs.index(key) for key in keys if key in pairs), None)
            if place is not None and tuple(point.shape) == tuple(axes):
                times = (point.median_s, point.low_s, point.high_s, point.predicted_s)
                rounded = (None if s is None else float(f"{s:.{_DIGITS}g}") for s in times)
                cells = (place, *point.shape.values(), *rounded)
                for name, cell in zip(columns, cells, strict=True):
                    columns[name].append(cell)
        return columns


def _with_errors(
    calibration: Calibration, pairs: Iterable[tuple[str, str, str]]
) -> list[tuple[str, str, str]]:
    """Those whose probes were predicted without them, which an interval is made of."""
    return [pair for pair in pairs if ".".join(pair) in calibration.probe_errors]


def _option(calibration: Calibration, op: str, provider: str, recipe: str) -> dict[str, Any]:
    model, name = _MODELS[op], f"{op}.{provider}.{recipe}"
    values = constants.values_of_pair(calibration.constants, name, (model.FAMILY, *model.CONSTANTS))
    family = model.FAMILIES[constants.decode_family(model.FAMILIES, values.pop(model.FAMILY))]
    span = calibration.probe_spans.get(name)
    formats: dict[str, Any] = {}
    if op != "cast":
        spec = RECIPES[recipe]
        formats = {"a": _operand(spec.a), "b": _operand(spec.b), "out_bits": BITS[spec.out]}
    return {
        "op": op,
        "provider": provider,
        "recipe": recipe,
        **family_record(family),
        "constants": constants.neutral_values(model.CONSTANTS) | values,
        **(formats or cast_formats(recipe)),
        "half_widths": {
            group: predictions.half_width(calibration, name, group) for group in model.GROUPS
        },
        "unprobed": {
            group: words
            for group, words in model.GROUPS.items()
            if not predictions.has_probes(calibration, name, group)
        },
        "roofs": predictions.calibrated_roofs(calibration, BY_NAME[op], provider, recipe),
        "multiples": dict(BY_NAME[op].size_multiples(provider, recipe)),
        "least_sizes": dict(BY_NAME[op].least_sizes(provider, recipe)),
        "span": span and dict(span),
    }


def cast_formats(recipe: str) -> dict[str, Any]:
    """How often a cast along rows reads its matrix at least, and the result that it writes."""
    (scale,) = CAST_RECIPES[recipe]
    return {
        "reads": read_bytes(recipe, 1, 1) // read_bytes("fp8_rowwise_dim0", 1, 1),
        "out": _operand(Operand(dtype="fp8_e4m3", scale=scale)),
    }


def family_record(family: Any) -> dict[str, Any]:
    """How a provider cuts a product, of the FAMILIES of an op, and the rule of our own kernels."""
    name, rule = getattr(family, "rule", ""), None
    if name in gemm_rule.TILES:
        tiles, narrow = gemm_rule.TILES[name]
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
    """Settled points of products and casts and of their probes."""
    for op in OPS:
        frame = analysis.frames.get(op.name)
        if op.folder not in _MODELS or frame is None:
            continue
        rows = ok_rows(frame[standard_protocol(frame.assign(repeat=0))])  # sentinels, too
        for row in rows[rows["world_size"] == 1].to_dict("records"):
            yield measured_point(op.name, row)
