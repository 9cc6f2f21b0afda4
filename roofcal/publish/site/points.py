"""Times as the scripts of the site read them: of shapes and of language models.

Times are in microseconds to five digits; work is in FLOP and bytes, so that a page can draw rates.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd

from roofcal.ask.llm.deployment import OUTPUT, PROMPT, RECIPES, Deployment, datasheet_of, memory_of
from roofcal.ask.llm.estimate import estimate
from roofcal.ask.llm.operator_models import estimable_recipes
from roofcal.ask.llm.sweep import with_smallest_cut
from roofcal.core.devices import DeviceSpec
from roofcal.core.environments import CALIBRATED
from roofcal.core.language_models import LanguageModel
from roofcal.core.records import PlanPoint, Protocol
from roofcal.fitting.parallel import parallel_map
from roofcal.models.errors import PredictError
from roofcal.models.registry import model_named, predict_points
from roofcal.ops import BY_NAME
from roofcal.ops.time_models import Sources
from roofcal.publish.site.devices import side_of
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.drawing import in_recipe_order
from roofcal.report.data.op_pages import title_of
from roofcal.report.data.prediction_errors import regime_rank
from roofcal.report.data.tidy import standard_protocol
from roofcal.report.kit.numbers import count_of, is_missing

_MICRO: Final = 1e6
_MODELLED: Final = ("gemm", "mixed_gemm", "cast", "linear")  # ops that need no link
# Columns of a row behind the sizes and the number of devices
COLUMNS: Final = (
    *("recipe", "provider", "time_us", "low_us", "high_us", "predicted_us", "flops", "bytes"),
    *("clock_mhz", "regime", "reason"),
)


def measured_points(publication: Analysis) -> dict[str, Any]:
    """Op -> its points under the standard protocol: times, and reasons where there is none."""
    points = {}
    for op in publication.studies:
        frame, axes = publication.frames[op], BY_NAME[op].axes
        timed = frame[standard_protocol(frame)]
        rows = timed[~timed["provider"].isin(BY_NAME[op].partial)]
        recipes, providers = in_recipe_order(rows["recipe"], op), sorted(set(rows["provider"]))
        regimes = sorted(set(rows["regime"]), key=regime_rank)
        lines = []
        for row in rows.to_dict("records"):
            why_not = ": ".join(filter(None, (row["status"], row["reason"])))
            lines.append(
                [
                    *(int(row[axis]) for axis in axes),
                    int(row["world_size"]),
                    recipes.index(row["recipe"]),
                    providers.index(row["provider"]),
                    *(_micro(row[key]) for key in ("median_s", "ci95_low_s", "ci95_high_s")),
                    _micro(row["predicted_s"]),
                    rounded(row["flops"]),
                    rounded(row["dram_bytes"]),
                    rounded(row["sm_clock_hz"], 1e-6),
                    regimes.index(row["regime"]),
                    None if row["status"] == "ok" else why_not,
                ]
            )
        if len(timed):
            points[op] = {
                "title": title_of(op),
                "axes": list(axes),
                "baseline": BY_NAME[op].baseline_recipe,
                "recipes": recipes,
                "providers": providers,
                "regimes": regimes,
                "columns": [*axes, "world_size", *COLUMNS],
                "rows": lines,
            }
    return points


def modelled_points(
    publications: Sequence[Analysis], specs: Mapping[str, DeviceSpec]
) -> dict[str, Any]:
    """What the datasheet and the wave model say of every published shape, on every device.

    Returns op -> {axes, recipes, regimes, rows, times}: `rows` are [size, ..., recipe, regime], and
    `times` has, for each side `datasheet:<device>` or `wave:<device>`, a time per row, None where
    the model knows none.
    """
    modelled = {}
    for op in _MODELLED:
        axes = list(BY_NAME[op].axes)
        points = _shapes(op, axes, publications)
        recipes = in_recipe_order((point.recipe for point in points), op)
        of_points = [BY_NAME[op].regime(point.shape) for point in points]
        regimes = sorted(set(of_points), key=regime_rank)
        times: dict[str, list[float | None]] = {}
        for device, spec in specs.items():
            for by in ("datasheet", "wave") if spec.wave else ("datasheet",):
                answers = predict_points(model_named(by), points, Sources(spec=spec))
                by_point = {answer.point_id: answer.total_s for answer in answers}
                times[f"{by}:{device}"] = [_micro(by_point.get(p.point_id), 4) for p in points]
        modelled[op] = {
            "title": title_of(op),
            "axes": axes,
            "recipes": recipes,
            "regimes": regimes,
            "rows": [
                [*point.shape.values(), recipes.index(point.recipe), regimes.index(regime)]
                for point, regime in zip(points, of_points, strict=True)
            ],
            "times": times,
        }
    return modelled


def _shapes(op: str, axes: Sequence[str], publications: Iterable[Analysis]) -> list[PlanPoint]:
    """Every shape and recipe that a provider of an op takes, once, as a point of no device."""
    parts = [
        frame[standard_protocol(frame)][[*axes, "recipe", "provider"]]
        for publication in publications
        if (frame := publication.frames.get(op)) is not None
    ]
    if not parts:
        return []
    rows = pd.concat(parts).drop_duplicates([*axes, "recipe", "provider"])
    taken: dict[tuple[Any, ...], PlanPoint] = {}
    for row in rows.to_dict("records"):
        provider, recipe = str(row["provider"]), str(row["recipe"])
        shape = {axis: int(row[axis]) for axis in axes}
        if BY_NAME[op].takes(provider, recipe, shape):
            point = PlanPoint(
                op=op, provider=provider, recipe=recipe, shape=shape, device="", protocol=Protocol()
            )
            taken.setdefault((*shape.values(), recipe), point)
    return [taken[key] for key in sorted(taken)]


def _micro(value: float | None, digits: int = 5) -> float | None:
    return rounded(value, _MICRO, digits)


def rounded(value: float | None, factor: float = 1.0, digits: int = 5) -> float | None:
    """A number to so many digits, whole where it is; None for a missing one."""
    if value is None or is_missing(float(value)):
        return None
    number = float(f"{value * factor:.{digits}g}")
    return int(number) if number.is_integer() else number


# --- tokens per second of language models, on the fewest GPUs that hold each ---------------------

BATCHES: Final = (1, 4, 16, 64, 256)
_ESTIMATED: Final = (
    *("first_token_s", "first_token_low_s", "first_token_high_s"),
    *("decode_step_s", "decode_step_low_s", "decode_step_high_s", "decode_tokens_per_s"),
)
_OF_MODELS: Final = ("side", "model", "recipe", "gpus", "tp", "pp", "batch", *_ESTIMATED)


def language_model_rows(
    publications: Sequence[Analysis],
    specs: Mapping[str, DeviceSpec],
    models: Mapping[str, LanguageModel],
) -> dict[str, Any]:
    """Rows by _OF_MODELS: by every calibration, and by wave model and datasheet of every device.

    What has no row is in `without`: [side, model, recipe, smallest batch without a row, reason].
    """
    sides: list[tuple[str, str, Sources]] = []
    for publication in publications:
        run = publication.run
        sources = Sources(calibration=run.calibration, spec=publication.spec)
        sides.append((side_of(publication), CALIBRATED, sources))
    for device, spec in specs.items():
        models_of_time = ("wave", "datasheet") if spec.wave else ("datasheet",)
        sides += [(f"{by}:{device}", by, Sources(spec=spec)) for by in models_of_time]
    of_sides = parallel_map(lambda side: _rows_of_side(*side, models), sides)
    return {
        "columns": _OF_MODELS,
        "rows": [row for rows, _ in of_sides for row in rows],
        "without": [row for _, without in of_sides for row in without],
        "prompt": PROMPT,
        "output": OUTPUT,
        "batches": BATCHES,
    }


def _rows_of_side(
    side: str, by: str, sources: Sources, models: Mapping[str, LanguageModel]
) -> tuple[list[list[Any]], list[list[Any]]]:
    """(rows of all models and recipes, why there is none)."""
    rows: list[list[Any]] = []
    without: list[list[Any]] = []
    estimable = estimable_recipes(sources, by)
    for name, model in models.items():
        for recipe in RECIPES if model.architecture else ():
            if estimable and recipe not in estimable:
                reason = f"no rate of {recipe} is known, only of {', '.join(estimable)}"
                without.append([side, name, recipe, BATCHES[0], reason])
                continue
            try:
                one = Deployment(model=model, recipe=recipe)
                deployment = with_smallest_cut(one, sources, by)
            except PredictError as error:  # no GPUs hold it, or no kernel runs it
                without.append([side, name, recipe, BATCHES[0], str(error)])
                continue
            largest = memory_of(deployment, datasheet_of(sources).dram_bytes).largest_batch
            cut = deployment.tensor, deployment.pipeline
            too_many = [batch for batch in BATCHES if batch > largest]
            if too_many:
                reason = (
                    f"{count_of(cut[0] * cut[1], 'GPU')}, the fewest that hold the model, "
                    f"{'have' if cut[0] * cut[1] > 1 else 'has'} memory for "
                    f"{count_of(largest, 'request')} at once"
                )
                without.append([side, name, recipe, too_many[0], reason])
            for batch in (batch for batch in BATCHES if batch <= largest):
                record = estimate(replace(deployment, batch=batch), sources, by).record
                numbers = [rounded(record[name]) for name in _ESTIMATED]
                rows.append([side, name, recipe, cut[0] * cut[1], *cut, batch, *numbers])
    return rows, without
