"""Write what each term of the calibrated equations buys into docs/models.md: a minute on two cores.

A constant is left out (the equation has its neutral value), the others are fitted again, and the
errors on what neither fit read are compared: probes left out by folds, study points, and points of
the judge. A term that buys less than its noise on all of them should go. The first row of an
equation is its error with all of its constants.
Run: python -m tools.term_gains, after the publications were derived anew.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from roofcal.ask.devices import datasheet
from roofcal.calibrate import cross_validated_ops, points_timed
from roofcal.core.jsonl import read_records, read_single_record
from roofcal.core.paths import PRIORS, RunFolder
from roofcal.core.records import Calibration
from roofcal.core.times import Array
from roofcal.fitting.cross_validation import Problem, problems_of, search
from roofcal.fitting.parallel import parallel_map
from roofcal.fitting.probes import Probe
from roofcal.ops.constants import decode_family
from roofcal.ops.priors import priors_of
from tools.method_numbers import ROOT, gpu_name, markdown_table, tables_of_devices

PAGE = ROOT / "docs" / "models.md"
KINDS = ("probes", "study", "judge")
ALL_TERMS = "(error with all)"
# Two words: marks of one are numbers of tools.method_numbers.
_MARKED = re.compile(r"(<!-- term gains -->\n).*?(<!-- / -->)", re.DOTALL)


def gains(publication: Path) -> pd.DataFrame:
    """A row per shape, recipe and constant: how much its error grows without the constant.

    error   |log(predicted / measured)| with all constants
    gain    what it grows by without one of them; the error itself in rows of ALL_TERMS
    Each shape counts once, in the first of KINDS that has it.
    """
    folder = RunFolder.at(publication)
    calibration = read_single_record(folder.calibration_file, Calibration)
    spec = datasheet(folder.device)
    assert spec is not None  # publications are of described devices
    cards = read_records(PRIORS / f"{spec.architecture}.jsonl", Calibration)
    others = [card for card in cards if card.device != folder.device]
    tasks: list[tuple[Problem, str, dict[str, list[Probe]]]] = []
    for op, kind, device, probes in cross_validated_ops(publication, spec):
        judged = [seed for seed in folder.judged().values() if op.folder in seed.planned_ops()]
        points = {"probes": probes, "study": points_timed(folder, op.folder)}
        points["judge"] = [point for seed in judged for point in points_timed(seed, op.folder)]
        priors = priors_of(others, spec, device.stream_bytes_per_s).get(op.folder, {})
        for problem in problems_of(kind, probes, replace(device, priors=priors)):
            equation = problem.equation
            name = f"{op.folder}.{problem.provider}.{problem.recipe}.{equation.FAMILY}"
            family = decode_family(equation.FAMILIES, calibration.constants[name].value)
            tasks.append((problem, family, points))
    parts = parallel_map(lambda task: pd.DataFrame(_rows(*task)), tasks)
    return pd.concat(parts, ignore_index=True).assign(gpu=gpu_name(folder.device))


def _rows(
    problem: Problem, family: str, points: dict[str, list[Probe]]
) -> Iterator[dict[str, object]]:
    """The rows of `gains` of one problem; points: by kind, also of other providers."""
    kinds, probes = ["probes"] * len(problem.probes), list(problem.probes)
    pairs = {(problem.provider, recipe) for recipe in problem.recipes}
    for kind in KINDS[1:]:
        seen = {str(probe.shape) for probe in probes}
        own = [p for p in points[kind] if (p.point.provider, p.point.recipe) in pairs]
        fresh = [probe for probe in own if str(probe.shape) not in seen]
        kinds, probes = kinds + [kind] * len(fresh), probes + fresh
    every = replace(problem, probes=probes)
    errors, constants = _errors(problem, every, family), problem.equation.CONSTANTS
    gains_of_terms = {ALL_TERMS: errors}
    for name in problem.constants(family):
        # Without a latency of its own, a slow path is as fast as the aligned one.
        if name in problem.neutral or constants[name].group in ("8_byte", "odd"):
            others = _errors(_without(problem, name), _without(every, name), family)
            gains_of_terms[constants[name].label] = others - errors
    for label, gains_of_term in gains_of_terms.items():
        for kind, probe, error, gain in zip(kinds, probes, errors, gains_of_term, strict=True):
            yield {
                "op": problem.equation.OP.name,
                "provider": problem.provider,
                "without": label,
                "kind": kind,
                "shape": str(probe.shape),
                "error": error,
                "gain": gain,
            }


def _without(problem: Problem, name: str) -> Problem:
    """The problem whose equation lacks a constant, of which no other card says anything."""
    priors = {
        pair: replace(prior, constants={n: k for n, k in prior.constants.items() if n != name})
        for pair, prior in problem.device.priors.items()
    }
    return replace(
        problem, device=replace(problem.device, priors=priors), left_out=frozenset({name})
    )


def _errors(problem: Problem, every: Problem, family: str) -> Array:
    """|log(predicted / measured)|, of probes by folds without them, of others by all probes.

    every: the problem with these others behind its probes.
    """
    inside = np.ones(len(problem.probes))
    fold = problem.fold_numbers(inside, problem.folds)
    weights = np.array([inside, *(1.0 * (fold != number) for number in range(problem.folds))])
    constants = search(problem, family, weights, problem.space(family))
    errors = np.abs(every.log_errors(family, constants))
    fits = np.zeros(errors.shape[1], dtype=int)
    fits[: len(fold)] = fold + 1
    result: Array = errors[fits, np.arange(len(fits))]
    return result


def table_of(rows: pd.DataFrame) -> list[str]:
    """The gains as a table of Markdown: percentage points of the mean error, +- standard errors.

    Recipes of one shape are averaged first; the mean and its standard error are over shapes. One
    shape has no standard error. Terms that no probe depends on are left out.
    """
    rows = rows[rows.groupby(["op", "provider", "without"])["gain"].transform(np.any)]
    columns = [(gpu, kind) for gpu in sorted(set(rows["gpu"]))[::-1] for kind in KINDS]

    def cell(own: pd.DataFrame) -> str:
        of_shapes = own.groupby("shape")["gain"].mean().to_numpy(dtype=float)
        sign = "" if own["without"].iloc[0] == ALL_TERMS else "+"
        mean = f"{100 * of_shapes.mean():{sign}.1f}"
        if len(of_shapes) == 1:
            return mean
        return f"{mean} ± {100 * of_shapes.std(ddof=1) / len(of_shapes) ** 0.5:.1f}"

    lines: list[Sequence[object]] = []
    for (op, provider, term), own in rows.groupby(["op", "provider", "without"], sort=False):
        by_kind = dict(list(own.groupby(["gpu", "kind"])))
        lines.append(
            [
                f"{op}, {provider}",
                term,
                *(cell(by_kind[c]) if c in by_kind else "" for c in columns),
            ]
        )
    heads = ["equation", "without", *(f"{kind}, {gpu}" for gpu, kind in columns)]
    return markdown_table(heads, lines)


def written_into(text: str, table: Sequence[str]) -> str:
    """The page with the table between its marks; raises ValueError for a page without them."""
    marked, count = _MARKED.subn(lambda mark: mark[1] + "\n".join(table) + "\n" + mark[2], text)
    if count != 1:
        raise ValueError(
            f"{PAGE}: wanted <!-- term gains --> and <!-- / --> around a table once, found {count}"
        )
    return marked


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    written_into(page, [])  # raises before the minutes of fits
    publications = [tables.parent for tables in tables_of_devices()]
    publications = [one for one in publications if datasheet(RunFolder.at(one).device)]
    table = table_of(pd.concat([gains(folder) for folder in publications], ignore_index=True))
    PAGE.write_text(written_into(page, table), encoding="utf-8")
