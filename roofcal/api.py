"""Questions in Python: `import roofcal; roofcal.predict("h200", "gemm", "rowwise", m=4096, ...)`.

The functions answer what the commands of the same names answer, from the same files: those of the
checkout in the current folder, else those that the package carries. Answers are frozen dataclasses
in SI units; `print` shows them as the commands do, and `answer` is what `--json` prints.

Mistakes raise ValueError (roofcal.models.errors.PredictError) with a message that names the way
out. docs/package.md has a walk through.
"""

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from roofcal.ask.advice import Recommendation, recommend
from roofcal.ask.advise import Adviser
from roofcal.ask.breakeven import Breakeven
from roofcal.ask.breakeven import breakeven as breakeven_of_linear
from roofcal.ask.devices import Devices, device_choice, device_sources
from roofcal.ask.energy import asked_prices
from roofcal.ask.llm.deployment import RECIPES, Deployment
from roofcal.ask.llm.estimate import Estimate, estimate, estimates_by_batch
from roofcal.ask.llm.sweep import (
    SWEPT_GPUS,
    Curve,
    RecipeComparison,
    Sweep,
    compare_recipes,
    sweep,
    with_smallest_cut,
)
from roofcal.ask.llm.transformers_config import asked_model
from roofcal.ask.measured import measured_points
from roofcal.ask.points import PredictedTime, predict_point, recipe_named
from roofcal.core import paths
from roofcal.core.names import did_you_mean_or_all
from roofcal.core.paths import RunFolder
from roofcal.core.records import PlanPoint
from roofcal.models import calibrated
from roofcal.models.errors import PredictError, checked_sizes
from roofcal.models.link import Source
from roofcal.models.registry import model_named
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
    from roofcal.export.frames import RunFrames
    from roofcal.health.products import TimedProducts

OperatorModel = Literal["calibrated", "wave", "torchao", "datasheet"]


class Served(TypedDict, total=False):
    """Keywords of every question about a language model; `llm` says what each means."""

    by: OperatorModel
    prompt: int
    output: int
    chunk: int
    link: Source
    environment: str | None


class ServedOnGpus(Served, total=False):
    """Those of questions about one cut over GPUs."""

    tp: int | None
    pp: int | None
    batch: int


def devices() -> dict[str, tuple[str, ...]]:
    """Device id -> ids of its calibrated environments, none of those with a datasheet alone.

    The first environment is the one that answers where none is named.
    """
    return {
        row["device"]: tuple(dict.fromkeys(run["environment"] for run in row["environments"]))
        for row in Devices().answer
    }


def predict(
    device: str,
    op: str = "gemm",
    recipe: str = "bf16",
    *,
    provider: str = "",
    by: str = "calibrated",
    environment: str | None = None,
    world_size: int = 1,
    **shape: int,
) -> PredictedTime:
    """The time of one point of an op.

    Args:
        device: an id as nvidia-h200, or a part of one, as h200; `devices` lists them. A part that
            fits several devices means the only one of them that was measured, and a warning says
            so.
        op: gemm, cast, mixed_gemm, linear, norm_linear_sigmoid, transformer_block or
            all_gather_matmul; default: gemm.
        recipe: a name of docs/ops.md; rowwise, tensorwise and blockwise are understood; default:
            bf16.
        provider: whose kernels; default: the one that is predicted to be the fastest.
        by: the model of time: calibrated (default), wave, torchao or datasheet; all but the first
            answer for cards that nobody measured.
        environment: id of a calibrated environment; default: the latest.
        world_size: devices of an all_gather_matmul.
        **shape: every axis of the op by name: m, n, k; rows, cols for casts.

    Returns:
        The time with its interval, and the provider that it is for.

    Raises:
        PredictError: a name is unknown, an axis is missing, no provider takes the shape, or the
            model has no answer.
    """
    sources, run = _sources(device, environment, by)
    point = PlanPoint(
        op=op,
        provider=provider,
        recipe=recipe,
        shape=shape,
        device=sources.device,
        world_size=checked_sizes(world_size=world_size)["world_size"],
    )
    return predict_point(point, by, sources, run)


def advise(
    device: str,
    *,
    m: int,
    n: int,
    k: int,
    passes: Passes = "forward",
    weights: Weights | None = None,
    recipes: Collection[str] = (),
    min_db: float | None = None,
    by: str = "calibrated",
    environment: str | None = None,
    energy: bool = False,
    price_per_kwh: float | None = None,
    price_per_hour: float | None = None,
) -> Recommendation:
    """Which recipe, and whose kernels, for a linear y[M,N] = x[M,K] @ w[N,K].T.

    Args:
        device, by, environment: as in `predict`.
        m, n, k: tokens, rows of w, columns of w.
        passes: forward: inference (default); forward_backward: a training step.
        weights: cached (cast beforehand) or cast (each time); default: cached forward, cast with
            backward.
        recipes (NAMES): these recipes alone, by name or family: bf16, fp8, int4.
        min_db (DB): leave out recipes whose measured signal to noise is lower or unknown, as 25.
        energy: joules per token too: board power by NVML, not the wall.
        price_per_kwh, price_per_hour: dollars per kWh of the boards and per hour of one GPU, for
            dollars per token.

    Returns:
        The decision, and recipes and providers ranked by their time, casts included.

    Raises:
        PredictError: a name is unknown, a size is no matrix, nothing could be ranked, or the model
            knows no linears.
    """
    sources, run = _sources(device, environment, by)
    weights = _checked_weights(passes, weights)
    shape = checked_sizes(m=m, n=n, k=k)
    measured = measured_points(run)
    adviser = Adviser(model_named(by), sources, passes, weights, measured, recipes, min_db)
    prices = asked_prices(energy, price_per_kwh, price_per_hour)
    return recommend(adviser, shape, prices)


def breakeven(
    device: str,
    recipe: str,
    *,
    n: int,
    k: int,
    passes: Passes = "forward",
    weights: Weights | None = None,
    casts: Casts = FASTEST,
    by: str = "calibrated",
    environment: str | None = None,
) -> Breakeven:
    """From how many tokens on a linear with n x k weights is faster in a recipe than in bf16.

    At every M, products and casts are those of the providers that `advise` predicts to be the
    fastest there, for bf16 as well.

    Args:
        recipe: the narrow recipe, as fp8_axiswise.
        casts: provider of the casts: by default the fastest at each M, as in `advise`; none
            compares products without casts.
        device, passes, weights, by, environment: as in `advise`.

    Raises:
        PredictError: the model cannot compare such a linear; the message says what it can.
    """
    sources, _ = _sources(device, environment, by)
    recipe = recipe_named(recipe, model_named(by).product_recipes(sources))
    weights = _checked_weights(passes, weights)
    _check_choice("casts", casts, (FASTEST, *CASTS))
    linear = Linear(recipe=recipe, passes=passes, casts=casts, weights=weights)
    return breakeven_of_linear(model_named(by), sources, linear, n, k)


def llm(
    device: str,
    model: str,
    *,
    recipe: str = "bf16",
    energy: bool = False,
    price_per_kwh: float | None = None,
    price_per_hour: float | None = None,
    **served: Unpack[ServedOnGpus],
) -> Estimate:
    """Prefill, decode and memory of a language model.

    Args:
        model: a file of config/models, as llama3-70b, or the path of one like it or of a
            config.json of transformers.
        recipe: bf16 (default), fp8_tensorwise, fp8_axiswise or int4.
        tp: tensor-parallel degree; default: the fewest GPUs that fit.
        pp: pipeline stages; default: as tp.
        batch: requests served together (1).
        prompt: tokens of each prompt (2048).
        output: tokens of each answer (256).
        chunk: most tokens of a prefill pass (8192).
        link: where the time of collectives comes from: calibrated, datasheet, or auto: calibrated
            where possible.
        device, by, environment, energy, price_per_kwh, price_per_hour: as in `predict` and
            `advise`.

    Raises:
        PredictError: the model of time cannot answer, or the language model does not fit.
        ConfigError: there is no such language model.
    """
    _check_keywords("llm", served, ServedOnGpus)
    deployment, sources, by = _deployment(device, model, recipe, **served)
    prices = asked_prices(energy, price_per_kwh, price_per_hour)
    return estimate(deployment, sources, by, prices=prices)


def llm_curve(
    device: str, model: str, *, recipe: str = "bf16", **served: Unpack[ServedOnGpus]
) -> Curve:
    """Throughput against latency of a language model, from one request to all that fit.

    Args:
        batch: without tp and pp: the requests for which the fewest GPUs are chosen.
        device, model, recipe, by, tp, pp, prompt, output, chunk, link, environment: as in `llm`.
    """
    _check_keywords("llm_curve", served, ServedOnGpus)
    deployment, sources, by = _deployment(device, model, recipe, **served)
    return Curve(estimates=estimates_by_batch(deployment, sources, by))


def llm_compare(device: str, model: str, **served: Unpack[ServedOnGpus]) -> RecipeComparison:
    """A language model in bf16, fp8 and int4 side by side, with the recipe that is the fastest.

    Args:
        tp, pp: as in `llm`; default: the fewest GPUs that hold it in bf16, for all recipes.
        device, model, by, batch, prompt, output, chunk, link, environment: as in `llm`.
    """
    _check_keywords("llm_compare", served, ServedOnGpus)
    return compare_recipes(*_deployment(device, model, "bf16", **served))


def llm_sweep(
    device: str,
    model: str,
    *,
    recipe: str = "bf16",
    gpus: int = SWEPT_GPUS,
    min_rate: float | None = None,
    all: bool = False,
    **served: Unpack[Served],
) -> Sweep:
    """Every cut of a language model over tensor- and pipeline-parallel GPUs, and batches on each.

    Args:
        gpus: with --sweep: the most GPUs (8).
        min_rate (TOKENS/S): with --sweep: decide among cuts and batches at which each request gets
            so many tokens per second in decode; default: among all.
        all: with --sweep: print what is not on the Pareto front, too; frame and JSON have it.
        device, model, recipe, by, prompt, output, chunk, link, environment: as in `llm`.

    Raises:
        PredictError: as in `llm`, and where no cut and batch is as fast as min_rate.
        ValueError: min_rate is no positive number.
    """
    _check_keywords("llm_sweep", served, Served)
    if min_rate is not None and not 0 < min_rate < math.inf:
        raise ValueError(f"min_rate: got {min_rate}, wanted a number of tokens per second above 0")
    deployment, sources, by = _deployment(device, model, recipe, tp=1, **served)
    most = checked_sizes(most_gpus=gpus)["most_gpus"]
    swept = replace(sweep(deployment, sources, by, most, min_rate), shows_all=all)
    _ = swept.best  # raises where no cut is fast enough
    return swept


def _check_keywords(question: str, given: Mapping[str, Any], known: type) -> None:
    """Raise TypeError for a keyword that is unknown: Unpack tells it to type checkers alone."""
    for name in given.keys() - known.__annotations__.keys():
        raise TypeError(f"{question}() got an unexpected keyword argument '{name}'")


def _deployment(
    device: str,
    model: str,
    recipe: str,
    *,
    by: OperatorModel = "calibrated",
    tp: int | None = None,
    pp: int | None = None,
    link: Source = "auto",
    environment: str | None = None,
    **load: int,
) -> tuple[Deployment, Sources, OperatorModel]:
    """A language model on its GPUs, what the model of time reads, and which model that is.

    It is on the fewest GPUs that hold it where no degrees are given. load: batch, prompt, output
    and chunk, where they are not the defaults of Deployment.
    """
    sources, _ = _sources(device, environment, by, stacklevel=4)
    if link != "auto" and by != calibrated.MODEL:
        raise PredictError(f"--link {link} is for --by calibrated; {by} has its own")
    degrees = checked_sizes(tp=1 if tp is None else tp, pp=1 if pp is None else pp)
    deployment = Deployment(
        model=asked_model(paths.MODELS, model),
        recipe=recipe_named(recipe, RECIPES),
        tensor=degrees["tp"],
        pipeline=degrees["pp"],
        link=link,
        **checked_sizes(**load),
    )
    if tp is None and pp is None:
        deployment = with_smallest_cut(deployment, sources, by)
    return deployment, sources, by


def time_products(
    shapes: Sequence[Sequence[int]], recipes: Collection[str] = ()
) -> "TimedProducts":
    """Measure products on the card at hand, or on its CPU, beside their predictions.

    Every provider that a study here has is timed as in `minute`, one visit of each, in seconds. The
    records are kept in asked/ of the device's run folder below results/, and `predict` and `advise`
    show the times at these shapes, where they answer by a calibration of this environment and
    nothing else kept the machine busy. What is asked again is measured again, and the newest time
    counts. `publish` leaves all of this out.

    Args:
        shapes: sizes (m, n, k) of each product.
        recipes: these alone; default: all that a study measures here.

    Raises:
        PredictError: a shape or a recipe is none that can be measured here.
        DiscoverError: nothing can be measured here.
        MeasureError: no product has a time.
        ModuleNotFoundError: this is no clone, or the extra `measure` is not installed.
    """
    # no wheel carries what measures
    from roofcal.health.products import time_products as measured_now  # noqa: PLC0415

    return measured_now(shapes, recipes)


def load(device: str, environment: str | None = None) -> "RunFrames":
    """What was measured, predicted and fitted on a device, as pandas frames.

    Args:
        device: an id, or the part of one that no other has.
        environment: id of one of its environments; None is the latest.

    Raises:
        PredictError: nothing is calibrated of the device; the message says what is.
    """
    from roofcal.export.frames import RunFrames  # noqa: PLC0415 (pandas takes 0.25 s)

    sources, run = _sources(device, environment, calibrated.MODEL)
    assert sources.calibration is not None and run is not None  # what that model reads
    calibration = sources.calibration
    return RunFrames(calibration.device, calibration.environment_id, run)


def _sources(
    text: str, environment: str | None, by: str, stacklevel: int = 3
) -> tuple[Sources, RunFolder | None]:
    """What a model reads of a device; the run of the calibration, None for one that reads none.

    Warns where several devices fit the text, of which one was measured; stacklevel: of the line
    that called roofcal.
    """
    device, remark = device_choice(text)
    if remark:
        warnings.warn(remark, stacklevel=stacklevel)
    sources, folder = device_sources(device, environment, by)
    return sources, RunFolder.at(folder) if sources.calibration else None


def _checked_weights(passes: Passes, weights: Weights | None) -> Weights:
    """The weights, or the usual ones of the passes; raises PredictError for other words."""
    _check_choice("passes", passes, PASSES)
    _check_choice("weights", weights or "cast", ("cached", "cast"))
    return weights or usual_weights(passes)


def _check_choice(name: str, value: str, allowed: Collection[str]) -> None:
    """Raises PredictError unless a value is allowed."""
    if value not in allowed:
        raise PredictError(f"{name}: '{value}'{did_you_mean_or_all(str(value), allowed)}")
