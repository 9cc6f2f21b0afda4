"""Questions in Python: `import roofcal; roofcal.predict("h200", "gemm", "rowwise", m=4096, ...)`.

The functions answer what the commands of the same names answer, from the same files: those of the
checkout in the current folder, else those that the package carries. Answers are frozen dataclasses
in SI units; `print` shows them as the commands do, and `answer` is what `--json` prints.

Mistakes raise ValueError (roofcal.models.errors.PredictError) with a message that names the way
out. docs/package.md has a walk through.
"""

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from roofcal.ask.advice_text import advise_point, measured_evidence
from roofcal.ask.advice_text import as_dict as advice_as_dict
from roofcal.ask.advice_text import as_text as advice_as_text
from roofcal.ask.advise import Adviser, LinearQuestion
from roofcal.ask.breakeven import Breakeven
from roofcal.ask.breakeven import breakeven as breakeven_of_linear
from roofcal.ask.llm.architecture import RECIPES
from roofcal.ask.llm.deployment import Deployment, Workload
from roofcal.ask.llm.estimate import Estimate, estimate
from roofcal.ask.llm.sweep import with_smallest_cut
from roofcal.ask.llm.transformers_config import asked_model
from roofcal.ask.names import device_choice, device_ids, recipe_named
from roofcal.ask.point_text import as_text as point_as_text
from roofcal.ask.points import as_dict as point_as_dict
from roofcal.ask.points import check_point, predict_point
from roofcal.ask.sources import device_sources
from roofcal.core import paths
from roofcal.core.names import did_you_mean_or_all
from roofcal.core.paths import RunFolder
from roofcal.core.records import PlanPoint
from roofcal.models import calibrated
from roofcal.models.calibrations import calibrated_runs
from roofcal.models.errors import PredictError, checked_sizes
from roofcal.models.registry import model_named
from roofcal.ops import BY_NAME
from roofcal.ops.linear.model import (
    CASTS,
    FASTEST,
    PASSES,
    Casts,
    Linear,
    Passes,
    Weights,
    usual_weights,
)
from roofcal.ops.time_models import Sources

if TYPE_CHECKING:
    import pandas as pd

    from roofcal.export.frames import RunFrames


@dataclass(frozen=True, kw_only=True)
class PredictedTime:
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
        fastest_probability: that the provider is the fastest; None without others.
        refused: provider -> why it does not run the shape.
        answer: everything as `roofcal predict --json` prints it.
    """

    device: str
    op: str
    recipe: str
    shape: Mapping[str, int]
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
    fastest_probability: float | None
    refused: Mapping[str, str]
    answer: Mapping[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return point_as_text(self.answer)


@dataclass(frozen=True, kw_only=True)
class RecipeTime:
    """A linear in one recipe by one pair of providers; times in seconds, as in PredictedTime.

    Attributes:
        seconds, low_s, high_s: the time that counts: measured at this very shape where it was,
            else predicted.
        source: measured, predicted, or which parts of the sum are measured.
        predicted_s, predicted_low_s, predicted_high_s: by the model of time.
        probability: that it is the fastest of all options.
        output_db: signal to noise measured at the nearest point; None where nobody measured it.
    """

    recipe: str
    products_by: str
    casts_by: str
    seconds: float
    low_s: float | None
    high_s: float | None
    source: str
    predicted_s: float
    predicted_low_s: float | None
    predicted_high_s: float | None
    bound_by: str
    probability: float | None
    speedup_over_bf16: float | None
    output_db: float | None
    extrapolated_doublings: float
    unprobed: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """Recipes and providers for a linear, the fastest first.

    Attributes:
        options: all that the model of time can answer, the fastest first.
        refused: name of another option -> the reason.
        answer: everything as `roofcal advise --json` prints it.
    """

    device: str
    model: str
    environment: str | None
    options: tuple[RecipeTime, ...]
    refused: Mapping[str, str]
    answer: Mapping[str, Any] = field(repr=False)
    text: str = field(repr=False)

    @property
    def best(self) -> RecipeTime:
        """The fastest option."""
        return self.options[0]

    def frame(self) -> "pd.DataFrame":
        """The options as rows of a pandas frame."""
        import pandas as pd  # noqa: PLC0415 (0.25 s that only frames need)

        return pd.DataFrame([vars(option) for option in self.options])

    def __str__(self) -> str:
        return self.text


def devices() -> dict[str, tuple[str, ...]]:
    """Device id -> ids of its calibrated environments, none of those with a datasheet alone.

    The first environment is the one that answers where none is named.
    """
    runs = calibrated_runs(paths.PUBLISHED, paths.RESULTS)
    return {
        device: tuple(dict.fromkeys(run.environment_id for run in runs if run.device == device))
        for device in device_ids()
    }


def predict(
    device: str,
    op: str = "gemm",
    recipe: str = "bf16",
    *,
    provider: str = "",
    model: str = "calibrated",
    environment: str | None = None,
    world_size: int = 1,
    **shape: int,
) -> PredictedTime:
    """The time of one point of an op.

    Args:
        device: an id as `nvidia-h200`, or a part of one, as `h200`; where several devices have
            it, the only one that was measured, with a warning that says so.
        op: gemm, cast, mixed_gemm, linear, norm_linear_sigmoid, transformer_block or
            all_gather_matmul.
        recipe: a name of docs/ops.md; rowwise, tensorwise and blockwise are understood.
        provider: whose kernels; "" is the one that is predicted to be the fastest.
        model: calibrated, wave, torchao or datasheet.
        environment: id of a calibrated environment; None is the latest.
        world_size: devices of the op.
        **shape: every axis of the op by name: m, n, k; rows, cols for casts.

    Returns:
        The time with its interval, and the provider that it is for.

    Raises:
        PredictError: a name is unknown, an axis is missing, no provider takes the shape, or the
            model has no answer.
    """
    device = _device(device)
    sources, run = _sources(device, environment, model)
    point = PlanPoint(
        op=op,
        provider=provider,
        recipe=recipe,
        shape={},
        device=device,
        world_size=checked_sizes(world_size=world_size)["world_size"],
    )
    if op in BY_NAME:  # check_point names an unknown op
        point = replace(point, recipe=recipe_named(recipe, BY_NAME[op].recipes))
    check_point(point)
    point = replace(point, shape=_sizes(op, shape))
    check_point(point)
    answer = point_as_dict(point, predict_point(point, model, sources, run), sources)
    return PredictedTime(
        device=device,
        op=op,
        recipe=point.recipe,
        shape=point.shape,
        model=model,
        provider=answer["provider"],
        environment=answer["environment"],
        seconds=answer["predicted_s"],
        low_s=answer["predicted_low_s"],
        high_s=answer["predicted_high_s"],
        bound_by=answer["bound_by"],
        flops_per_s=answer["predicted_flops_per_s"],
        bytes_per_s=answer["predicted_bytes_per_s"],
        extrapolated_doublings=answer["extrapolated_doublings"],
        unprobed=tuple(answer["unprobed"]),
        fastest_probability=answer["fastest_probability"],
        refused=answer["refused_providers"],
        answer=answer,
    )


def advise(
    device: str,
    *,
    m: int,
    n: int,
    k: int,
    passes: Passes = "forward",
    weights: Weights | None = None,
    model: str = "calibrated",
    environment: str | None = None,
) -> Recommendation:
    """Which recipe, and whose kernels, for a linear y[M,N] = x[M,K] @ w[N,K].T.

    Args:
        device, model, environment: as in `predict`.
        m, n, k: tokens, rows of w, columns of w.
        passes: forward, or forward_backward for a training step.
        weights: cached (cast beforehand) or cast (each time); None is what is usual for passes.

    Returns:
        Recipes and providers ranked by their time, casts included.

    Raises:
        PredictError: a name is unknown, a size is no matrix, or the model knows no linears.
    """
    device = _device(device)
    sources, run = _sources(device, environment, model)
    weights = _checked_weights(passes, weights)
    sizes = _sizes("gemm", {"m": m, "n": n, "k": k})
    question = LinearQuestion(**sizes, passes=passes, weights=weights)
    evidence = measured_evidence(run)
    adviser = Adviser(model_named(model), sources, evidence.by_key)
    advice, winners = advise_point(adviser, question)
    environment = sources.calibration.environment_id if sources.calibration else None
    origin: dict[str, Any] = {"model": model, "device": device, "environment": environment}
    answer = advice_as_dict(advice, evidence, winners, origin)
    return Recommendation(
        **origin,
        options=tuple(
            RecipeTime(
                recipe=option["recipe"],
                products_by=option["products_by"],
                casts_by=option["casts_by"],
                seconds=option["time_s"],
                low_s=option["time_low_s"],
                high_s=option["time_high_s"],
                source=option["source"],
                predicted_s=option["predicted_s"],
                predicted_low_s=option["predicted_low_s"],
                predicted_high_s=option["predicted_high_s"],
                bound_by=option["bound_by"],
                probability=option["fastest_probability"],
                speedup_over_bf16=option["speedup_over_bf16"],
                output_db=option["output_db"],
                extrapolated_doublings=option["extrapolated_doublings"],
                unprobed=tuple(option["unprobed"]),
            )
            for option in answer["options"]
        ),
        refused=answer["refused"],
        answer=answer,
        text=advice_as_text(advice, evidence, winners, origin),
    )


def breakeven(
    device: str,
    recipe: str,
    *,
    n: int,
    k: int,
    passes: Passes = "forward",
    weights: Weights | None = None,
    casts: Casts = FASTEST,
    model: str = "calibrated",
    environment: str | None = None,
) -> Breakeven:
    """From how many tokens on a linear with n x k weights is faster in a recipe than in bf16.

    At every M products and casts are those of the providers that `advise` predicts to be the
    fastest there, of bf16 too.

    Args:
        casts: who casts, instead of the fastest; "none" compares the products alone.
        device, passes, weights, model, environment: as in `advise`.

    Raises:
        PredictError: the model cannot compare such a linear; the message says what it can.
    """
    sources, _ = _sources(_device(device), environment, model)
    recipe = recipe_named(recipe, model_named(model).product_recipes(sources))
    weights = _checked_weights(passes, weights)
    _check_choice("casts", casts, (FASTEST, *CASTS))
    linear = Linear(recipe=recipe, passes=passes, casts=casts, weights=weights)
    return breakeven_of_linear(model_named(model), sources, linear, **checked_sizes(n=n, k=k))


def llm(
    device: str,
    model: str,
    *,
    recipe: str = "bf16",
    by: str = "calibrated",
    tp: int | None = None,
    pp: int | None = None,
    batch: int = 1,
    prompt: int = 2048,
    output: int = 256,
    environment: str | None = None,
) -> Estimate:
    """Prefill, decode and memory of a language model.

    Args:
        model: a file of config/models, as `llama3-70b`, or the path of one like it or of a
            config.json of transformers.
        by: the model of time: calibrated, wave, torchao or datasheet.
        tp, pp: tensor-parallel degree and pipeline stages; None for both: the fewest GPUs that fit.
        batch: requests served together.
        prompt, output: tokens of each request.
        device, recipe, environment: as in `predict`.

    Raises:
        PredictError: the model of time cannot answer, or the language model does not fit.
        ConfigError: there is no such language model.
    """
    device = _device(device)
    sources, _ = _sources(device, environment, by)
    given = {name: size for name, size in (("tp", tp), ("pp", pp)) if size is not None}
    degrees = checked_sizes(**given)
    deployment = Deployment(
        model=asked_model(paths.MODELS, model),
        recipe=recipe_named(recipe, RECIPES),
        tensor=degrees.get("tp", 1),
        pipeline=degrees.get("pp", 1),
        workload=Workload(**checked_sizes(batch=batch, prompt=prompt, output=output)),
    )
    if not degrees:
        deployment = with_smallest_cut(deployment, sources, by)
    return estimate(deployment, sources, by)


def load(device: str, environment: str | None = None) -> "RunFrames":
    """What was measured, predicted and fitted on a device, as pandas frames.

    Args:
        device: an id, or the part of one that no other has.
        environment: id of one of its environments; None is the latest.

    Raises:
        PredictError: nothing is calibrated of the device; the message says what is.
    """
    from roofcal.export.frames import RunFrames  # noqa: PLC0415 (pandas takes 0.25 s)

    sources, run = _sources(_device(device), environment, calibrated.MODEL)
    assert sources.calibration is not None and run is not None  # what that model reads
    calibration = sources.calibration
    return RunFrames(calibration.device, calibration.environment_id, run)


def _device(text: str) -> str:
    """The id of the device that a person means; warns where several fit and one was measured."""
    device, remark = device_choice(text)
    if remark:
        warnings.warn(remark, stacklevel=3)  # in the line that called roofcal
    return device


def _sources(device: str, environment: str | None, model: str) -> tuple[Sources, RunFolder | None]:
    """What a model reads of a device; the run of the calibration, None for one that reads none."""
    sources, folder = device_sources(device, environment, model)
    return sources, RunFolder.at(folder) if sources.calibration else None


def _checked_weights(passes: Passes, weights: Weights | None) -> Weights:
    """The weights, or the usual ones of the passes; raises PredictError for other words."""
    _check_choice("passes", passes, PASSES)
    _check_choice("weights", weights or "cast", ("cached", "cast"))
    return weights or usual_weights(passes)


def _sizes(op: str, shape: Mapping[str, int]) -> dict[str, int]:
    """The sizes by axis, in the order of the axes; raises PredictError for other axes or sizes."""
    axes = BY_NAME[op].axes
    if set(shape) != set(axes):
        raise PredictError(
            f"op {op} has the axes {', '.join(axes)}; got {', '.join(shape) or 'none'}"
        )
    return checked_sizes(**{axis: shape[axis] for axis in axes})


def _check_choice(name: str, value: str, allowed: Collection[str]) -> None:
    """Raises PredictError unless a value is allowed."""
    if value not in allowed:
        raise PredictError(f"{name}: '{value}'{did_you_mean_or_all(str(value), allowed)}")
