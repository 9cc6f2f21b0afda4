"""Predictions for a person: of one point, or of a CSV of points.

A point without a provider is that of the calibrated provider that is predicted to be the fastest,
of those that take the shape; the answer says with which probability it is, and how good such
choices were. Models of time that know no providers answer for any of them.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from roofcal.ask.answers import ANY_PROVIDER, Answer, ManyAnswers, filled, origin_words, record_of
from roofcal.ask.measured import (
    ChoiceRecord,
    MeasuredPoint,
    by_key,
    choice_record,
    fastest_probabilities,
    point_key,
    steady_points,
)
from roofcal.ask.shape_limits import (
    FAR,
    beyond_probes,
    joined_refusals,
    memory_refusal,
    providers_that_run,
    refusals,
    too_small,
    unprobed_words,
)
from roofcal.core.csv_files import Cells, read_rows, size_errors
from roofcal.core.names import did_you_mean, did_you_mean_or_all, names_with_part
from roofcal.core.paths import RunFolder
from roofcal.core.records import PlanPoint, Prediction
from roofcal.models import calibrated
from roofcal.models.errors import PredictError, checked_sizes
from roofcal.models.registry import model_named, predict_points
from roofcal.models.wave import model as wave
from roofcal.ops import BY_NAME, STUDY_OPS
from roofcal.ops.constants import calibrated_providers, load_part
from roofcal.ops.spec import OpSpec
from roofcal.ops.time_models import Sources

_ANSWERS: Final = (
    "predicted_s", "predicted_low_s", "predicted_high_s", "bound_by", "provider",
    "extrapolated_doublings", "unprobed", "refused",
)  # fmt: skip
# Attribute of PredictedTime -> its key in JSON, and key -> attribute of what it holds.
_KEYS: Final = {
    "seconds": "predicted_s",
    "low_s": "predicted_low_s",
    "high_s": "predicted_high_s",
    "flops_per_s": "predicted_flops_per_s",
    "bytes_per_s": "predicted_bytes_per_s",
    "slower": "slower_providers",
    "refused": "refused_providers",
}
_MEASURED: Final = {
    "measured_s": "median_s", "measured_low_s": "low_s", "measured_high_s": "high_s",
}  # fmt: skip
_CHOICES: Final = {
    "choices_measured": "points", "choices_right": "right",
    "mean_regret": "mean_regret", "worst_regret": "worst_regret",
}  # fmt: skip
# What torch, torchao and papers call a recipe -> its name here.
RECIPE_ALIASES: Final = {
    "axiswise": "fp8_axiswise",
    "rowwise": "fp8_axiswise",
    "fp8_rowwise": "fp8_axiswise",
    "tensorwise": "fp8_tensorwise",
    "blockwise": "fp8_blockwise_128x128",
    "fp8_blockwise": "fp8_blockwise_128x128",
}


@dataclass(frozen=True, kw_only=True)
class PredictedTime(Answer):
    """The predicted time of one point, and how sure it is.

    Attributes:
        seconds: predicted time of one call.
        low_s, high_s: 95 % interval; None for a model of time that states none.
        provider: whose kernels the time is for; "any" for a model that knows no providers.
        bound_by: what limits the time: dram, tiles, launch, ...
        flops_per_s, bytes_per_s: rates at that time.
        environment: id of the calibrated environment; None for a model that reads no calibration.
        extrapolated_doublings: how far outside of its probes the shape lies; 0 within, None where
            nobody knows.
        unprobed: what no probe is like, as rows off 16 bytes, in words.
        slower: providers that are predicted to be slower.
        fastest_probability: that the provider is the fastest; None without others.
        refused: provider -> why it does not run the shape.
        choices: how good choices among providers were on measured points; None without others.
        measured: what the provider was measured to take at this very shape.
        answer: everything as `roofcal predict --json` prints it.
    """

    device: str
    op: str
    recipe: str
    shape: Mapping[str, int]
    world_size: int
    model: str
    provider: str
    environment: str | None
    seconds: float
    low_s: float | None
    high_s: float | None
    bound_by: str
    flops_per_s: float
    bytes_per_s: float
    extrapolated_doublings: float | None
    unprobed: tuple[str, ...]
    slower: tuple[str, ...]
    fastest_probability: float | None
    refused: Mapping[str, str]
    choices: ChoiceRecord | None = None
    measured: MeasuredPoint | None = None

    @property
    def answer(self) -> dict[str, Any]:
        """The answer with its point and its rates, as JSON values in SI units."""
        nested = ("shape", "choices", "measured", *["world_size"] * (self.world_size == 1))
        return {
            **record_of(self, _KEYS, without=nested),
            **self.shape,
            "extrapolated": bool(self.extrapolated_doublings),
            **{key: getattr(self.measured, name, None) for key, name in _MEASURED.items()},
            **{key: getattr(self.choices, name, None) for key, name in _CHOICES.items()},
        }

    def parts(self) -> Iterator[str]:
        """Time, rates, whose they are, and what makes them less sure."""
        record = self.answer
        is_guess = (self.extrapolated_doublings or 0.0) > FAR
        span = "{predicted_low_s:time} to {predicted_high_s:time}"
        interval = filled(f" ({'perhaps' if is_guess else '95 %:'} {span})", record)
        yield filled("{predicted_s:time}", record) + f"{interval}, bound by {self.bound_by}"
        if self.op == "linear":
            yield "of the linear forward and backward, casts included"
        flops = "{predicted_flops_per_s:T.4g} TFLOP/s, " if self.flops_per_s else ""  # 0 of a cast
        yield filled(flops + "{predicted_bytes_per_s:T.4g} TB/s", record)
        yield origin_words(record)
        if self.measured is not None:
            span = "{measured_s:time} (95 %: {measured_low_s:time} to {measured_high_s:time})"
            off = self.seconds / self.measured.median_s - 1
            yield filled(f"measured at this shape: {span}, predicted {off:+.1%}", record)
        if doublings := self.extrapolated_doublings:
            effect = ", so less certain"
            if is_guess:
                effect = (
                    "; no measurement says how wide the interval should be so far out: "
                    "treat it as a guess"
                )
            yield f"extrapolated: {doublings:.1f} doublings outside the probed range{effect}"
        if self.unprobed:
            yield unprobed_words(self.unprobed)
        if self.slower:
            sure = filled(" with probability {fastest_probability:.2f}", record)
            record_words = "no measured points tell how often this choice is right"
            if self.choices:
                record_words = self.choices.words("points")
            slower = ", ".join(self.slower)
            yield f"{self.provider} is the fastest{sure}, before {slower}; {record_words}"
        yield from (f"refused: {reason}" for reason in joined_refusals(self.refused))


def predict_point(
    point: PlanPoint, model: str, sources: Sources, run: RunFolder | None = None
) -> PredictedTime:
    """Predict one point and name its provider.

    run: the folder of the calibration, which has measured points. Without it the answer has no
    record of choices, and nothing measured.

    Raises PredictError where the model has no answer for the point, or every provider refuses it.
    """
    time_model = model_named(model)
    point = checked_point(point)
    op = BY_NAME[point.op]
    if (problem := op.shape_problem(point.shape)) is not None:
        raise PredictError(f"no {op.name} has these sizes: {problem}")
    if (too_large := memory_refusal(point, sources.spec)) is not None:
        raise PredictError(too_large)
    calibration = sources.calibration if model == calibrated.MODEL else None
    whole, is_of_one_part = providers_that_run(op, point.recipe, sources, model, point.device)
    candidates = [point.provider] if point.provider else whole
    refused = refusals(op, candidates, point.recipe, point.shape)
    allowed = [provider for provider in candidates if provider not in refused]
    if candidates and not allowed:
        raise PredictError("; ".join(joined_refusals(refused)))

    def predicted(provider: str) -> list[Prediction]:
        return predict_points(time_model, [replace(point, provider=provider)], sources)

    # a composed op knows whose answer a point without a provider is, and what is a bound
    is_composed = not point.provider and not is_of_one_part
    providers = [""] if is_composed else allowed
    answers = {name: answer for name in providers for answer in predicted(name)}
    if not answers:
        raise PredictError(_no_answer(point, model, sources))
    order = sorted(answers, key=lambda name: answers[name].total_s)
    provider, *slower = order
    prediction = answers[provider]
    chances = fastest_probabilities(
        [[(name, answers[name].total_s, answers[name].high_s)] for name in order]
    )
    if is_composed and calibration is not None:  # the first provider with this very prediction
        same = (
            name for name in allowed for one in predicted(name) if one.total_s == prediction.total_s
        )
        provider = next(same, "")
    doublings, unprobed = beyond_probes(calibration, replace(point, provider=provider))
    work = op.work(point.recipe, point.shape)
    key = point_key(op.name, provider or ANY_PROVIDER, point.recipe, point.shape)
    measured = steady_points(run)
    of_op = list(by_key(one for one in measured if one.op == op.name).values())
    choices = choice_record(of_op) if slower else None
    chance = chances[0] if slower else None
    return PredictedTime(
        device=point.device,
        op=op.name,
        recipe=point.recipe,
        shape=point.shape,
        world_size=point.world_size,
        model=model,
        provider=provider or ANY_PROVIDER,
        environment=sources.environment,
        seconds=prediction.total_s,
        low_s=prediction.low_s,
        high_s=prediction.high_s,
        bound_by=prediction.bound_by,
        flops_per_s=work.flops / prediction.total_s,
        bytes_per_s=work.dram_bytes / prediction.total_s,
        extrapolated_doublings=doublings,
        unprobed=unprobed,
        slower=tuple(slower),
        fastest_probability=choices.chance(chance) if choices and chance else chance,
        refused={  # a kernel for large shapes is no choice for a small one: not worth a line
            other: reason
            for other, reason in refused.items()
            if too_small(op, other, point.recipe, point.shape) is None
        },
        choices=choices,
        measured=by_key(measured).get(key),
    )


def _no_answer(point: PlanPoint, model: str, sources: Sources) -> str:
    """Why a model has no prediction of a point, and what it can predict."""
    if model != calibrated.MODEL and sources.spec is None:
        why = f"there is no config/devices/{point.device}.yaml"
    elif model == wave.MODEL and sources.wave is None:
        why = f"config/devices/{point.device}.yaml has no section 'wave'"
    elif BY_NAME[point.op].computes == "cast" and sources.calibration:
        constants = sources.calibration.constants
        names = ", ".join(calibrated_providers(constants, "cast", point.recipe))
        casts = f"casts {point.recipe} by {names}" if names else f"no casts {point.recipe}"
        why = f"it knows {casts} there"
    else:
        recipes = model_named(model).product_recipes(sources)
        why = f"it knows the products {', '.join(recipes) or 'of no recipe'} there"
        if point.recipe in recipes and sources.calibration and model == calibrated.MODEL:
            constants = sources.calibration.constants
            names = ", ".join(calibrated_providers(constants, "gemm", point.recipe))
            why = f"it knows products {point.recipe} by {names} there"
    explain = getattr(load_part(BY_NAME[point.op], "model"), "why_unanswered", None)
    if explain is not None:
        why = explain(model_named(model), point, sources) or why
    what = f"{point.op} {point.recipe}" + (f" by {point.provider}" if point.provider else "")
    return f"model '{model}' has no answer for {what} on {point.device}: {why}"


def recipe_named(text: str, recipes: Collection[str]) -> str:
    """The recipe that a person means; a text that is neither a recipe nor an alias, as it is."""
    alias = RECIPE_ALIASES.get(text, text)
    return text if text in recipes or alias not in recipes else alias


def checked_point(point: PlanPoint) -> PlanPoint:
    """The point with the name that its recipe has here.

    Raises PredictError for an unknown op, recipe or provider, other axes than those of the op, what
    is no size, and a world size that the op does not have.
    """
    _check_op(point)
    op = BY_NAME[point.op]
    recipe = recipe_named(point.recipe, op.recipes)
    if (problem := _recipe_problem(op, recipe)) is not None:
        raise PredictError(problem)
    if set(point.shape) != set(op.axes):
        raise PredictError(
            f"op {op.name} has the axes {', '.join(op.axes)}; "
            f"got {', '.join(point.shape) or 'none'}"
        )
    sizes = checked_sizes(**{axis: point.shape[axis] for axis in op.axes})
    point = replace(point, recipe=recipe, shape=sizes)
    _check_world_size(point, op.shared_axis)
    return point


def _check_op(point: PlanPoint) -> None:
    """Raises PredictError for an unknown op, and for a provider that it has on no backend."""
    if point.op not in BY_NAME:
        hint = did_you_mean_or_all(point.op, [op.name for op in STUDY_OPS])
        raise PredictError(f"unknown op '{point.op}'{hint}")
    providers = BY_NAME[point.op].every_provider
    if point.provider not in ("", *providers):
        hint = did_you_mean_or_all(point.provider, providers)
        raise PredictError(f"unknown provider '{point.provider}' of op {point.op}{hint}")


def _recipe_problem(op: OpSpec, recipe: str) -> str | None:
    """Why an op has no such recipe, and which may be meant, of other ops too; None if it has it."""
    if op.has_recipe(recipe):
        return None
    if op.written_recipe is not None and "+" in recipe:  # written down, with a mistake
        try:
            op.written_recipe(recipe)
        except ValueError as error:
            return str(error)
    problem = f"unknown recipe '{recipe}' of op {op.name}"
    if owners := [f"--op {other.name}" for other in STUDY_OPS if recipe in other.recipes]:
        words = [alias for alias, meant in RECIPE_ALIASES.items() if meant == recipe]
        word = next((word for word in words if names_with_part(word, op.recipes)), None)
        hint = did_you_mean(word, op.recipes) if word else ""
        more = f" and {len(owners) - 2} more" if owners[2:] else ""
        others = (", " if more else " and ").join(owners[:2]) + more
        return f"{problem}{hint}; {others} {'have' if owners[1:] else 'has'} it"
    ops = (op, *STUDY_OPS)
    with_part = [other for other in ops if names_with_part(recipe, other.recipes)]
    for other in (*with_part, *ops):  # int4 is a part of names, and no slip of int8
        if hint := did_you_mean(recipe, other.recipes):
            where = "" if other is op else f" (with --op {other.name})"
            return f"{problem}{hint}{where}"
    return f"{problem}{did_you_mean_or_all(recipe, op.recipes)}"


def _check_world_size(point: PlanPoint, axis: str | None) -> None:
    """Raises PredictError for too few or too many devices, and for rows they cannot share."""
    if axis is None:
        if point.world_size > 1:
            raise PredictError(f"op {point.op} runs on one device; leave --world-size out")
        return
    if point.world_size < 2:
        raise PredictError(f"op {point.op} runs on several devices; give --world-size 2 or more")
    size = point.shape.get(axis, 0)
    if size % point.world_size:
        raise PredictError(
            f"{axis}={size} is no multiple of world size {point.world_size}, and its devices share "
            f"it out evenly; give a multiple of {point.world_size}, or another --world-size"
        )


def predict_csv(
    path: Path,
    model: str,
    sources: Sources,
    provider: str = "",
    *,
    op: str = "gemm",
    world_size: int = 1,
) -> ManyAnswers:
    """The rows of a file with the columns of _ANSWERS; each row as predict_point.

    The file has the columns recipe and the axes of the op, and may have op and world_size, which
    have to be those that are asked for; others are dropped. Rows without an answer, as those that
    every provider refuses, have no time and the reason in `refused`. The ends of the interval are
    empty for a model that states none.

    Raises CsvError naming file, line and column of up to 20 mistakes, and PredictError for an
    unknown op or provider and for a world size that the op does not have.
    """
    question = PlanPoint(
        op=op, provider=provider, recipe="", shape={}, device=sources.device, world_size=world_size
    )
    _check_op(question)
    spec = BY_NAME[op]
    _check_world_size(question, spec.shared_axis)

    def row_errors(cells: Cells) -> Iterator[str]:
        for column, value in (("op", op), ("world_size", str(world_size))):
            if (cell := cells.get(column, value)) != value:
                option = f"--{column.replace('_', '-')}"
                yield f"{column}={cell!r}, and the file is answered for {option} {value}"
        problem = _recipe_problem(spec, recipe_named(cells["recipe"], spec.recipes))
        if problem is not None:
            yield problem
        yield from size_errors(cells, spec.axes)

    rows: list[dict[str, Any]] = []
    columns = ("recipe", *spec.axes)
    for _, cells in read_rows(path, columns, row_errors, optional=("op", "world_size")):
        shape = {axis: int(cells[axis]) for axis in spec.axes}
        recipe = recipe_named(cells["recipe"], spec.recipes)
        rows.append({"recipe": recipe, **shape})
        try:
            answer = predict_point(replace(question, recipe=recipe, shape=shape), model, sources)
        except PredictError as error:
            rows[-1] |= {"provider": provider, "refused": str(error)}
        else:
            rows[-1] |= answer.answer | {"refused": "; ".join(joined_refusals(answer.refused))}
    return ManyAnswers((*columns, *_ANSWERS), rows)
