"""Write config/priors: the published cards of each architecture as fractions of their datasheets.

Each card is calibrated on its own probes alone. With two cards and more, each is then predicted by
what the others say of it; these errors, as half-widths by conformal prediction, are the intervals
of a card that nobody measured.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from roofcal.ask.devices import datasheet
from roofcal.calibrate import calibrate, probes_of_ops
from roofcal.core import paths
from roofcal.core.devices import DeviceSpec
from roofcal.core.jsonl import write_records
from roofcal.core.paths import RunFolder, run_folders
from roofcal.core.portable_math import exp, log
from roofcal.core.records import Calibration, PlanPoint
from roofcal.fitting.cross_validation import error_summary
from roofcal.fitting.intervals import Errors, half_widths
from roofcal.fitting.probes import by_provider_and_recipe
from roofcal.models.calibrations import BETWEEN
from roofcal.ops import BY_NAME
from roofcal.ops.constants import current_equations, load_part
from roofcal.ops.predictions import answer_of, sizes_of
from roofcal.ops.priors import calibration_of_nobody, fractions_of


def main() -> None:
    """Write a file for each architecture that has a publication."""
    runs: dict[str, list[tuple[Path, DeviceSpec]]] = {}
    for run in run_folders(paths.PUBLISHED):
        spec = datasheet(run.device)
        if spec is not None:
            runs.setdefault(spec.architecture, []).append((run.folder, spec))
    for architecture, members in runs.items():
        cards = [fractions_of(calibrate(folder, spec), spec) for folder, spec in members]
        between = Calibration(
            device=architecture,
            environment_id=BETWEEN,
            constants={},
            probe_errors=errors_between(members, cards),
            equations=current_equations(),
        )
        write_records(paths.PRIORS / f"{architecture}.jsonl", [*cards, between])
        print(f"{architecture}: {len(cards)} cards")


def errors_between(
    members: Sequence[tuple[Path, DeviceSpec]], cards: Sequence[Calibration]
) -> dict[str, dict[str, float]]:
    """Errors of cards by the others, with half-widths by group, by <op>.<provider>.<recipe>."""
    by_op: dict[str, list[Errors]] = {}
    for (folder, spec), card in zip(members, cards, strict=True):
        others = [other for other in cards if other is not card]
        guess = calibration_of_nobody([*others, _without_errors(others)], spec)
        if guess is not None:
            for op, errors in _errors_of_card(folder, guess):
                by_op.setdefault(op, []).append(errors)
    summaries: dict[str, dict[str, float]] = {}
    for op, of_cards in by_op.items():
        merged = list(_merged(of_cards))
        for provider, recipe, _, logs in merged:
            summaries[f"{op}.{provider}.{recipe}"] = error_summary(np.abs(exp(logs) - 1))
        groups = getattr(load_part(BY_NAME[op], "model"), "GROUPS", ())
        for name, widths in half_widths(op, merged, groups).items():
            summaries[name] |= widths
    return summaries


def _without_errors(cards: Sequence[Calibration]) -> Calibration:
    """Errors of zero for every pair, so that a calibration of nobody has all of them."""
    names = {name: {"log_p95": 0.0} for card in cards for name in card.probe_errors}
    return Calibration(
        device=cards[0].device if cards else "none",
        environment_id=BETWEEN,
        constants={},
        probe_errors=names,
    )


def _errors_of_card(folder: Path, guess: Calibration) -> Iterator[tuple[str, Errors]]:
    """(op, log(predicted / measured) of its probes) for every pair that the guess answers."""
    for op, probes in probes_of_ops(RunFolder.at(folder)):
        model = load_part(op, "model")
        for provider, recipe, members in by_provider_and_recipe(probes):
            if f"{op.name}.{provider}.{recipe}" not in guess.probe_errors:
                continue
            points: list[PlanPoint] = [probe.point for probe in members]
            sizes = sizes_of(points, op.axes)
            answer = answer_of(model, guess, provider, recipe, sizes)
            measured = np.array([probe.latency.median for probe in members])
            logs = log(answer.times.total) - log(measured)
            groups = model.groups_of(recipe, sizes)  # type: ignore[union-attr]
            yield op.name, (provider, recipe, groups, logs)


def _merged(errors: Sequence[Errors]) -> Iterator[Errors]:
    """The errors of all cards by provider and recipe."""
    for pair in dict.fromkeys((provider, recipe) for provider, recipe, _, _ in errors):
        own = [
            (groups, logs)
            for provider, recipe, groups, logs in errors
            if (provider, recipe) == pair
        ]
        groups = [group for groups, _ in own for group in groups]
        yield (*pair, groups, np.concatenate([logs for _, logs in own]))


if __name__ == "__main__":
    main()
