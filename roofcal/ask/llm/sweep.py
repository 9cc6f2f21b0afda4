"""Estimates of many cuts, batches and recipes; the smallest cut, and the table of a run.

A cut is (tensor-parallel degree, pipeline stages). Tensor parallelism stays within ONE_HOST; stages
are powers of two, at most one per layer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from roofcal.ask.advice import Ends, is_toss_up, style_of, toss_up_words
from roofcal.ask.answers import (
    Answer,
    Column,
    Part,
    Record,
    Style,
    Table,
    Verdict,
    csv_text,
    filled,
)
from roofcal.ask.llm.deployment import (
    ONE_HOST,
    RECIPES,
    Deployment,
    Memory,
    architecture_of,
    check_parallel,
    check_shards,
    datasheet_of,
    memory_of,
    runnable_degrees,
    tensor_degrees,
    why_refused,
)
from roofcal.ask.llm.estimate import (
    BATCH_COLUMNS,
    Estimate,
    deployment_record,
    estimate,
    estimates_by_batch,
    notes_of_all,
)
from roofcal.ask.llm.operator_models import estimable_recipes, operator_times
from roofcal.core.devices import DeviceSpec
from roofcal.core.language_models import LanguageModel
from roofcal.core.units import GB, format_seconds
from roofcal.models import calibrated
from roofcal.models.calibrations import read_calibration
from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources

MOST_GPUS: Final = 512
SWEPT_GPUS: Final = 8  # as in the notebook on MI300X inference: all cuts of one host
_BATCH_FACTOR: Final = 4  # between a batch of a cut and the next
CUTS: Final = ((1, 1), (2, 1), (4, 1), (8, 1), (4, 2))  # tensor parallel, pipeline stages
COLUMNS: Final = (
    *("model", "recipe", "tensor_parallel", "pipeline_parallel"),
    *("prompt_tokens", "output_tokens", "fits", "batch", "largest_batch"),
    *("weight_bytes_per_gpu", "needed_bytes_per_gpu", "usable_bytes_per_gpu"),
    *("first_token_s", "first_token_low_s", "first_token_high_s"),
    *("decode_step_s", "decode_step_low_s", "decode_step_high_s"),
    *("decode_tokens_per_s", "decode_tokens_per_s_low", "decode_tokens_per_s_high"),
    *("output_tokens_per_s", "output_tokens_per_s_low", "output_tokens_per_s_high"),
    *("prefill_bound_by", "decode_bound_by", "products_by", "extrapolated_doublings"),
)

Cut = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve(Answer):
    """Throughput against latency of one deployment, by batch."""

    estimates: list[Estimate]

    @property
    def answer(self) -> dict[str, Any]:
        """A record per batch, without operators."""
        return {"curve": self.rows()}

    def rows(self) -> list[dict[str, Any]]:
        """A row per batch."""
        return [estimate.record for estimate in self.estimates]

    def parts(self) -> Iterator[Part]:
        """What one request and the most requests get; one line per batch."""
        first, last = self.estimates[0].record, self.estimates[-1].record
        most = "{batch}, the most that fit, get {request_tokens_per_s: four} each and "
        most += "{decode_tokens_per_s: four} together, first tokens after {first_token_s:time}."
        if last["batch"] == 1:
            most = "no second fits."
        one = filled("One request gets {request_tokens_per_s: four} tokens/s in decode", first)
        yield Verdict(f"{one}; {filled(most, last)}")
        yield self.estimates[0].where
        yield f"batch from 1 to the largest that fits, {self.estimates[0].load}"
        yield ""
        interval = Column("95 %", "{decode_tokens_per_s_low:.0f} to {decode_tokens_per_s_high:.0f}")
        yield Table(self.rows(), (*BATCH_COLUMNS, interval))
        yield ""
        yield from notes_of_all(self.estimates)


_SWEEP_COLUMNS: Final = (
    Column("tp", "{tensor_parallel}", names=True),
    Column("pp", "{pipeline_parallel}", names=True),
    Column("GPUs", lambda row: str(row["tensor_parallel"] * row["pipeline_parallel"]), names=True),
    BATCH_COLUMNS[0]._replace(names=True),
    *BATCH_COLUMNS[1:],
    Column("per GPU", "{tokens_per_s_per_gpu:.0f}"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(Answer):
    """All cuts of a model up to some number of GPUs.

    estimates  by cut, batches from 1 to the largest that fits
    too_large  memory that one request needs, of cuts that do not hold it
    refused    why no kernel of the recipe runs the shards, by tensor-parallel degree
    most_gpus  the most GPUs of a cut
    min_rate   tokens per second that each request gets at least in decode; None: any
    shows_all  whether the text has what is not on the Pareto front, too
    """

    estimates: dict[Cut, list[Estimate]]
    too_large: dict[Cut, Memory]
    refused: dict[int, str]
    most_gpus: int
    min_rate: float | None = None
    shows_all: bool = False

    @property
    def answers(self) -> list[Estimate]:
        """The estimates of all cuts."""
        return [answer for answers in self.estimates.values() for answer in answers]

    @property
    def best(self) -> Estimate:
        """The most tokens per second and GPU in decode, of those that give min_rate.

        Raises PredictError where none does.
        """
        least = self.min_rate or 0.0
        if enough := [a for a in self.answers if a.request_tokens_per_s.value >= least]:
            return max(enough, key=lambda answer: answer.tokens_per_s_per_gpu)
        fastest = frontier(self.answers)[0]
        raise PredictError(
            f"no cut of {self._gpus} gives a request {least:.4g} tokens/s; the most "
            f"is {fastest.request_tokens_per_s.value:.4g}, {_cut_words(fastest)}: give a lower "
            "--min-rate, more --gpus or another --recipe"
        )

    @property
    def _gpus(self) -> str:
        return f"up to {self.most_gpus} GPUs" if self.most_gpus > 1 else "one GPU"

    @property
    def decision(self) -> dict[str, Any]:
        """The record of `best`, and what was asked for."""
        best = self.best
        constraint = {"min_rate": self.min_rate, "most_gpus": self.most_gpus}
        return constraint | best.record | {"tokens_per_s_per_gpu": best.tokens_per_s_per_gpu}

    @property
    def answer(self) -> dict[str, Any]:
        """JSON values: decision, answers, and the cuts that do not hold one request or run."""
        return {
            "decision": self.decision,
            "sweep": self.rows(),
            "too_large": [
                {
                    "tensor_parallel": tensor,
                    "pipeline_parallel": pipeline,
                    "needed_bytes_per_gpu": memory.needed_bytes,
                    "usable_bytes_per_gpu": memory.usable_bytes,
                }
                for (tensor, pipeline), memory in self.too_large.items()
            ],
            "refused": [
                {"tensor_parallel": tensor, "reason": reason}
                for tensor, reason in self.refused.items()
            ],
        }

    def rows(self) -> list[dict[str, Any]]:
        """A row per cut and batch; frontier: whether no other is better in latency and rate."""
        best = {id(answer) for answer in frontier(self.answers)}
        return [
            answer.record
            | {"tokens_per_s_per_gpu": answer.tokens_per_s_per_gpu, "frontier": id(answer) in best}
            for answer in self.answers
        ]

    def _verdict(self) -> Iterator[Part]:
        """What to run for the most tokens, what a request then gets, and what would be faster."""
        best, fastest = self.best, frontier(self.answers)[0]
        rate, gpus = best.decode_tokens_per_s, best.deployment.gpus
        between = f" (95 %: {rate.low / gpus:.0f} to {rate.high / gpus:.0f})"
        most = "the most"
        if self.min_rate:
            most += f" at {self.min_rate:.4g} tokens/s or more for each request"
        yield Verdict(
            f"Use {_cut_words(best)}: {best.tokens_per_s_per_gpu:.0f} tokens/s per GPU in decode"
            f"{between if best.has_interval else ''}, {most} on {self._gpus}; a "
            f"request gets {best.request_tokens_per_s.value:.4g} tokens/s, its first token after "
            f"{format_seconds(best.first_token.value_s)}."
        )
        if fastest is not best:
            yield (
                f"A request is served fastest by {_cut_words(fastest)}: "
                f"{fastest.request_tokens_per_s.value:.4g} tokens/s, "
                f"{fastest.tokens_per_s_per_gpu:.0f} per GPU."
            )
        yield ""

    def parts(self) -> Iterator[Part]:
        """A decision; the Pareto front, the shortest time per token first; then all else."""
        yield from self._verdict()
        first, answer = self.answers[0], self.answer
        cut_of = ("tensor_parallel", "pipeline_parallel", "batch")
        best = [answer["decision"][key] for key in cut_of]

        def style(row: Record) -> Style:
            return "best" if [row[key] for key in cut_of] == best else ""

        yield f"{first.what} on {first.device}"
        yield first.load
        yield ""
        front = [row for row in answer["sweep"] if row["frontier"]]
        others = [row for row in answer["sweep"] if not row["frontier"]]
        yield Table(sorted(front, key=lambda row: row["decode_step_s"]), _SWEEP_COLUMNS, style)
        yield (
            "no other cut (tp x pp) and batch has both more tokens/s per GPU and less time per "
            "token"
        )
        if self.shows_all:
            yield ""
            yield Table(others, _SWEEP_COLUMNS)
        elif others:
            yield f"not shown: {len(others)} others; --all shows them"
        for cut in answer["too_large"]:
            yield filled(
                "tp {tensor_parallel} pp {pipeline_parallel}: does not fit, one request needs "
                "{needed_bytes_per_gpu:GB.1f} of {usable_bytes_per_gpu:GB.1f} GB per GPU",
                cut,
            )
        yield from (f"not timed: {reason}" for reason in self.refused.values())
        yield ""
        yield from notes_of_all(self.answers)


def _cut_words(answer: Estimate) -> str:
    deployment = answer.deployment
    return f"--tp {deployment.tensor} --pp {deployment.pipeline} --batch {deployment.batch}"


def cuts_of(model: LanguageModel, degrees: Sequence[int], most_gpus: int) -> list[Cut]:
    """Cuts over at most so many GPUs at some tensor-parallel degrees.

    Those of fewer GPUs and stages come first.
    """
    layers = architecture_of(model).layers
    stages = [1 << power for power in range(layers.bit_length()) if 1 << power <= layers]
    cuts = [
        (tensor, pipeline)
        for tensor in degrees
        for pipeline in stages
        if tensor * pipeline <= most_gpus
    ]
    return sorted(cuts, key=lambda cut: (cut[0] * cut[1], cut[1]))


def with_smallest_cut(deployment: Deployment, sources: Sources, by: str) -> Deployment:
    """The deployment on the fewest GPUs that hold it.

    Raises PredictError where no cut of up to MOST_GPUS GPUs does, one GPU does not and the
    datasheet states no link, no kernel runs the shards, or the model of time cannot answer for the
    recipe.
    """
    operator_times(sources, deployment.recipe, by)
    check_shards(replace(deployment, tensor=1), sources, by)
    spec = datasheet_of(sources)
    most = 1 if spec.link_bytes_per_s is None else MOST_GPUS
    degrees = runnable_degrees(deployment, sources, by, ONE_HOST)
    for tensor, pipeline in cuts_of(deployment.model, degrees, most):
        cut = replace(deployment, tensor=tensor, pipeline=pipeline)
        memory = memory_of(cut, spec.dram_bytes)
        if memory.fits:
            return cut
    gpus = "one GPU (its file states no link to others)" if most == 1 else f"up to {most} GPUs"
    raise PredictError(
        f"{deployment.model.model} in {deployment.recipe} at batch {deployment.batch} of "
        f"{deployment.longest_context} tokens fits in no cut of {gpus} of {spec.device}: the last "
        f"cut needs {memory.needed_bytes / GB:.1f} GB per GPU ({memory.parts}) and has "
        f"{memory.usable_bytes / GB:.1f}; give a smaller --batch or --prompt, or another --recipe"
    )


def sweep(
    deployment: Deployment,
    sources: Sources,
    by: str,
    most_gpus: int = SWEPT_GPUS,
    min_rate: float | None = None,
) -> Sweep:
    """Every cut over at most so many GPUs with batches from 1 to the largest that fits.

    min_rate: as of Sweep. Raises PredictError as estimate does, and where no cut holds one request.
    """
    times = operator_times(sources, deployment.recipe, by)
    spec = datasheet_of(sources)
    one = replace(deployment, batch=1)
    degrees = runnable_degrees(one, sources, by, ONE_HOST)
    most = 1 if spec.link_bytes_per_s is None else most_gpus
    estimates: dict[Cut, list[Estimate]] = {}
    too_large: dict[Cut, Memory] = {}
    for tensor, pipeline in cuts_of(one.model, degrees, most):
        cut = replace(one, tensor=tensor, pipeline=pipeline)
        memory = memory_of(cut, spec.dram_bytes)
        if memory.fits:
            answers = estimates_by_batch(cut, sources, by, _BATCH_FACTOR, times)
            estimates[tensor, pipeline] = answers
        else:
            too_large[tensor, pipeline] = memory
    if not estimates:
        smallest = with_smallest_cut(one, sources, by)
        raise PredictError(
            f"{one.model.model} in {one.recipe} fits in no cut of {most_gpus} GPUs of "
            f"{spec.device}; the smallest that fits is --tp {smallest.tensor} "
            f"--pp {smallest.pipeline}: give --gpus {smallest.gpus} or more"
        )
    reasons = {
        tensor: why_refused(replace(one, tensor=tensor), sources, by)
        for tensor in tensor_degrees(one.model, min(most, ONE_HOST))
    }
    refused = {tensor: reason for tensor, reason in reasons.items() if reason is not None}
    return Sweep(
        estimates=estimates, too_large=too_large, refused=refused, most_gpus=most, min_rate=min_rate
    )


def frontier(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Those that no other beats in both tokens per second and GPU, and time per token."""
    best, kept = 0.0, []
    for answer in sorted(
        estimates, key=lambda a: (a.decode.total.value_s, -a.tokens_per_s_per_gpu)
    ):
        if answer.tokens_per_s_per_gpu > best:
            best = answer.tokens_per_s_per_gpu
            kept.append(answer)
    return kept


def run_table(
    run: Path, calibration: Path, spec: DeviceSpec | None, models: Mapping[str, LanguageModel]
) -> str:
    """The table of a run folder as CSV; its header alone where no recipe can be timed.

    A row per model of config/models, recipe, cut of CUTS and batch: 1, 4, 16, ... and the largest
    that fits. A cut whose weights leave no room for one request has one row without times. Cuts
    that do not divide a model, leave shards that no kernel takes, or lack a link have none.

    Raises PredictError for the calibration of another device, RecordsError for a bad file.
    """
    sources = Sources(calibration=read_calibration(calibration, run.parent.name), spec=spec)
    return csv_text(COLUMNS, _rows(sources, models))


def _rows(sources: Sources, models: Mapping[str, LanguageModel]) -> Iterator[dict[str, Any]]:
    times = {recipe: operator_times(sources, recipe) for recipe in estimable_recipes(sources)}
    if not times:
        return
    spec = datasheet_of(sources)
    cuts = CUTS if spec.link_bytes_per_s is not None else CUTS[:1]
    for model in models.values():
        for tensor, pipeline in cuts if model.architecture else ():
            try:
                check_parallel(model, tensor, pipeline)
            except PredictError:
                continue
            for recipe, of_recipe in times.items():
                one = Deployment(model=model, recipe=recipe, tensor=tensor, pipeline=pipeline)
                if why_refused(one, sources, calibrated.MODEL) is not None:
                    continue
                memory = memory_of(one, spec.dram_bytes)
                if not memory.fits:
                    yield deployment_record(one, memory) | {"fits": "no"}
                    continue
                answers = estimates_by_batch(one, sources, factor=_BATCH_FACTOR, times=of_recipe)
                yield from (answer.record | {"fits": "yes"} for answer in answers)


_RECIPE_COLUMNS = (
    Column("recipe", "{recipe}", left=True),
    Column("request", "{request_s:time}"),
    Column("95 %", "{request_low_s:.3g} to {request_high_s:.3g} s"),
    Column("over bf16", "{speedup_over_bf16:.2f}x"),
    *BATCH_COLUMNS[1:],
    Column("largest batch", "{largest_batch}"),
)


@dataclass(frozen=True, kw_only=True)
class RecipeComparison(Answer):
    """Estimates of one deployment by recipe, bf16 first, and which recipe serves it fastest.

    refused      recipe -> why it has no estimate
    fewest_gpus  recipe -> the fewest GPUs that hold it
    """

    estimates: Mapping[str, Estimate]
    refused: Mapping[str, str]
    fewest_gpus: Mapping[str, int]

    def rows(self) -> list[dict[str, Any]]:
        """A row per recipe. request_s: from first to last token; speed-ups are of that time."""
        baseline = self.estimates["bf16"].all_tokens.value_s
        return [
            one.record
            | one.interval("request", one.all_tokens)
            | {"speedup_over_bf16": baseline / one.all_tokens.value_s}
            for one in self.estimates.values()
        ]

    @property
    def decision(self) -> dict[str, Any]:
        """The recipe of the shortest request, and those that its interval does not tell from it."""
        rows = sorted(self.rows(), key=lambda row: row["request_s"])
        best, *others = rows

        def ends(row: Record) -> Ends:
            return row["request_s"], row["request_low_s"], row["request_high_s"]

        toss_ups = [
            row for row in others if is_toss_up(ends(best), ends(row), is_next=row is others[0])
        ]
        bf16 = self.estimates["bf16"]
        return {
            "recipe": best["recipe"],
            "speedup_over_bf16": best["speedup_over_bf16"],
            "casts_included": True,
            "first_token_speedup": bf16.first_token.value_s / best["first_token_s"],
            "decode_speedup": bf16.decode.total.value_s / best["decode_step_s"],
            "toss_up_with": [row["recipe"] for row in toss_ups],
            "toss_up_within": (
                toss_ups[-1]["request_s"] / best["request_s"] - 1 if toss_ups else None
            ),
        }

    @property
    def answer(self) -> dict[str, Any]:
        """The decision, a record per recipe without operators, and why others have none."""
        return {
            "decision": self.decision,
            "recipes": self.rows(),
            "refused": dict(self.refused),
            "fewest_gpus": dict(self.fewest_gpus),
        }

    def parts(self) -> Iterator[Part]:
        """The verdict, a line per recipe, and what the estimates assume."""
        decision, first = self.decision, self.estimates["bf16"]
        what, aside = "Keep bf16: no recipe ranked here is faster", list[str]()
        if decision["recipe"] != "bf16":
            what = filled("Use {recipe}: {speedup_over_bf16:.2f}x bf16", decision)
            parts = "first token {first_token_speedup:.2f}x, each further {decode_speedup:.2f}x"
            aside.append(filled(parts, decision))
        if decision["toss_up_with"]:
            aside.append(toss_up_words(decision["toss_up_with"], decision["toss_up_within"]))
        certainty = f" ({'; '.join(aside)})" if aside else ""
        counted = "from first to last token, casts included"
        yield Verdict(f"{what} {counted}{certainty}; `advise` has the accuracy.")
        gpus = first.deployment.gpus
        why = ", the fewest GPUs that hold it in bf16" if gpus == self.fewest_gpus["bf16"] else ""
        yield first.where.replace(" in bf16", "") + why
        yield f"batch {first.deployment.batch}, {first.load}"
        yield ""
        yield Table(self.rows(), _RECIPE_COLUMNS, lambda row: style_of(row, decision["recipe"]))
        for fewest in sorted({count for count in self.fewest_gpus.values() if count < gpus}):
            names = [name for name, count in self.fewest_gpus.items() if count == fewest]
            yield (
                f"{fewest} GPU{'s' * (fewest > 1)} would hold it in {', '.join(names)}: ask with "
                f"--recipe {names[0]} instead of --compare, --tp and --pp for its times there"
            )
        yield from (f"no {recipe}: {why}" for recipe, why in self.refused.items())
        yield ""
        yield from notes_of_all(list(self.estimates.values()))


def compare_recipes(deployment: Deployment, sources: Sources, by: str) -> RecipeComparison:
    """A deployment in each of RECIPES on its GPUs.

    Raises PredictError where bf16, which others are compared with, has no estimate.
    """
    estimates = {"bf16": estimate(replace(deployment, recipe="bf16"), sources, by)}
    refused = {}
    for recipe in RECIPES[1:]:
        try:
            estimates[recipe] = estimate(replace(deployment, recipe=recipe), sources, by)
        except PredictError as error:
            refused[recipe] = str(error)
    fewest = {
        recipe: with_smallest_cut(one.deployment, sources, by).gpus
        for recipe, one in estimates.items()
    }
    return RecipeComparison(estimates=estimates, refused=refused, fewest_gpus=fewest)
