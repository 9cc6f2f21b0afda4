"""The shape box: what a page needs to rank recipes at any shape, and its first answer.

The equations of roofcal.ops.gemm.model, roofcal.ops.mixed_gemm.model and roofcal.ops.cast.model
are traced here, once per option, and a browser does their steps again for any shape
(reports/templates/product_model.js). The decision on the shape that the box shows first is that of
`roofcal advise`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from roofcal.ask.advice import (
    MOST_APART,
    NEAR,
    NEXT_WORDS,
    TOSS_UP_WORDS,
    TOSS_UPS_WORDS,
    Decision,
    decided_advice,
)
from roofcal.ask.advise import Adviser
from roofcal.ask.linear_options import BASELINE, FARTHEST, NO_CASTS, Option
from roofcal.ask.measured import MeasuredPoint, by_key, measured_point
from roofcal.ask.shape_limits import FAR, tensor_bytes
from roofcal.core.csv_files import LARGEST_SIZE
from roofcal.core.records import Calibration
from roofcal.models import calibrated
from roofcal.models.errors import PredictError
from roofcal.ops import BY_NAME, OPS, constants, predictions
from roofcal.ops.cast import model as cast
from roofcal.ops.gemm import model as gemm
from roofcal.ops.mixed_gemm import model as mixed_gemm
from roofcal.ops.predictions import extents
from roofcal.ops.spec import Shape
from roofcal.ops.time_models import Sources
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import ok_rows, standard_protocol
from roofcal.report.kit.traces import Trace

_PRODUCTS: Final[Mapping[str, Any]] = {"gemm": gemm, "mixed_gemm": mixed_gemm}
_MODELS: Final[Mapping[str, Any]] = {**_PRODUCTS, "cast": cast}
_DIGITS: Final = 6  # of a measured time
_EXAMPLE: Final = 4096  # of a size, while an equation is traced
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

        equations  what the equations of all options do to a shape, see roofcal.report.kit.traces
        options   every calibrated pair of provider and recipe: `answer` (time, interval, what
                  binds, doublings outside of the probes, group of shapes, least work) by place in
                  `equations`, why it has no time, the groups that no probe is of, its limits of
                  shapes, and `ways` to cast x for it: places in `casts`. None where no cast is
                  known
        casts     the same of casts of x
        decision  when two recipes are a toss-up, and the words for it, see roofcal.ask.advice
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
        trace = Trace()
        options = [
            _option(calibration, trace, *pair)
            | {
                "ways": [
                    [casts.index(one) for one in way]
                    for way in ways.get(pair, [])
                    if set(way) <= set(casts)
                ]
            }
            for pair in pairs
        ]
        of_casts = [_option(calibration, trace, *pair) for pair in casts]
        answers = [option["answer"] for option in (*options, *of_casts)]
        return {
            "device": analysis.device,
            "anchor": anchor,
            "name": f"{analysis.device_name}, {analysis.environment_name}",
            "baseline": BASELINE,
            "largest_size": LARGEST_SIZE,
            "first_shape": dict(self.first_shape),
            "farthest_doublings": FARTHEST,
            "far_doublings": FAR,
            "decision": {
                "most_apart": MOST_APART,
                "near": NEAR,
                "toss_up": TOSS_UP_WORDS,
                "toss_ups": TOSS_UPS_WORDS,
                "next": NEXT_WORDS,
            },
            "dram_bytes": analysis.spec.dram_bytes if analysis.spec else None,
            "datasheet": analysis.device,
            "without_casts": NO_CASTS,
            "options": options,
            "casts": of_casts,
            "equations": trace.written(answers),
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


def _option(
    calibration: Calibration, trace: Trace, op: str, provider: str, recipe: str
) -> dict[str, Any]:
    """A pair of provider and recipe of an op, see `data`."""
    model, name, spec = _MODELS[op], f"{op}.{provider}.{recipe}", BY_NAME[op]
    sizes = [trace.size(axis, _EXAMPLE) for axis in spec.axes]
    shape = dict(zip(spec.axes, sizes, strict=True))
    answer = extents(spec, recipe, shape) | {"memory": tensor_bytes(spec, recipe, shape)}
    answer["group"] = model.groups_of(recipe, sizes)
    refused = None
    try:
        times = predictions.answer_of(model, calibration, provider, recipe, sizes).times
    except KeyError:
        refused = f"the calibration of {recipe} by {provider} lacks a constant of its equation"
    else:
        answer |= {"total": times.total, "low": times.low, "high": times.high}
        answer |= {"boundBy": times.bound_by[0]}
        answer |= {"doublings": times.beyond.doublings if times.beyond else 0}
    return {
        "op": op,
        "provider": provider,
        "recipe": recipe,
        "answer": {key: trace.place(value) for key, value in answer.items()},
        "refused": refused,
        "unprobed": {
            group: words
            for group, words in model.GROUPS.items()
            if not predictions.has_probes(calibration, name, group)
        },
        "multiples": dict(spec.size_multiples(provider, recipe)),
        "least_sizes": dict(spec.least_sizes(provider, recipe)),
    }


def measured_points(analysis: Analysis) -> Iterator[MeasuredPoint]:
    """Settled points of products and casts and of their probes."""
    for op in OPS:
        frame = analysis.frames.get(op.name)
        if op.folder not in _MODELS or frame is None:
            continue
        rows = ok_rows(frame[standard_protocol(frame.assign(repeat=0))])  # sentinels, too
        for row in rows[rows["world_size"] == 1].to_dict("records"):
            yield measured_point(op.name, row)
