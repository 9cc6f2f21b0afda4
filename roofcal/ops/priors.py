"""Constants across cards: what the measured cards of an architecture say of one that is not.

A constant is stated as a fraction of what the datasheet of its card says of the same kind:

    rates of math and of caches    of the dense bf16 peak, of one compute unit where it is of one:
                                   both go with the clock and the number of units
    bandwidth of streams           of the datasheet's memory bandwidth
    bandwidth within an equation   of the bandwidth of streams, which every study measures
    all others                     seconds and factors, which cards of an architecture share

Fractions are averaged over the cards by their logarithms. A constant is known as well as its cards
know it, and no better than SPREAD, by which cards differ.

`cards` are always the records of an architecture: each of its cards as fractions, and one without
constants, whose errors are those of cards that are predicted by the others (tools/write_priors.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from roofcal.core.devices import DeviceSpec
from roofcal.core.portable_math import exp, log
from roofcal.core.priors import Known, Prior
from roofcal.core.records import CODE, ON_BOUND, Calibration, Ceiling
from roofcal.core.statistics import BETWEEN_CARDS
from roofcal.ops import BY_NAME, STUDY_OPS
from roofcal.ops.constants import (
    Constant,
    calibrated_pairs,
    current_equations,
    decode_family,
    load_part,
)

# Of a logarithm. An H100 that is predicted from its quick probes and the constants of an H200 is
# 4.4, 4.2 and 4.3 % off with 0.05, 0.1 and 0.2 (144 products of layers that no study lists).
SPREAD: Final = 0.1
_COMPARED: Final = {
    "dram_read_bytes_per_s": "memory reads",
    "dram_write_bytes_per_s": "memory writes",
    "dram_copy_bytes_per_s": "memory copies",
    "gemm.cublaslt.bf16.sustained_flops_per_s": "long bf16 products",
    "gemm.cublaslt.fp8_axiswise.sustained_flops_per_s": "long fp8 products",
}
PRIOR_OF: Final = "prior-of-"  # the environment of a device that nobody measured begins so
_DEVIATIONS_IN_INTERVAL: Final = 3.92  # 95 % of a normal distribution
_STREAM: Final = "dram_read_bytes_per_s"
_OF_UNIT: Final = " per compute unit"


def fractions_of(calibration: Calibration, spec: DeviceSpec) -> Calibration:
    """A calibration whose constants are fractions, see the module; families stay what they are."""
    stream = calibration.constants[_STREAM].value
    constants = {}
    for name, constant in calibration.constants.items():
        op, _, rest = name.partition(".")
        if op in BY_NAME if rest else name != "compute_units":  # links are not what cards share
            factor = 1 / _yardstick(name, constant, spec, stream)
            ends = ("value", "ci95_low", "ci95_high")
            scaled = {end: getattr(constant, end) * factor for end in ends}
            constants[name] = replace(constant, **scaled)
    return replace(calibration, constants=constants)


def priors_of(
    cards: Sequence[Calibration], spec: DeviceSpec, stream_bytes_per_s: float | None = None
) -> dict[str, dict[tuple[str, str], Prior]]:
    """Op -> (provider, recipe) -> what cards say of its constants on a device.

    Args:
        cards: see the module; those of other equations are left out.
        spec: the device's datasheet.
        stream_bytes_per_s: its measured bandwidth of streams; None: as the cards and the datasheet
            say.
    """
    present = _of_present_equations(cards)
    stream = stream_bytes_per_s or _stream_of(present, spec)
    priors: dict[str, dict[tuple[str, str], Prior]] = {}
    for op in STUDY_OPS:
        pairs = (pair for c in present for pair in calibrated_pairs(c.constants, op.name))
        for pair in dict.fromkeys(pairs):
            prefix = f"{op.name}.{'.'.join(pair)}."
            model = load_part(op, "model")
            family_name: str = getattr(model, "FAMILY", "")
            own = [card for card in present if prefix + family_name in card.constants]
            if not own:
                continue
            code = own[0].constants[prefix + family_name].value
            alike = [card for card in own if card.constants[prefix + family_name].value == code]
            constants = {
                name: _known(prefix + name, alike, spec, stream)
                for name in getattr(model, "CONSTANTS", {})
                if prefix + name in alike[0].constants and _identified(prefix + name, alike)
            }
            priors.setdefault(op.name, {})[pair] = Prior(
                family=decode_family(getattr(model, "FAMILIES", ()), code),
                constants=constants,
                cards=tuple(card.device for card in alike),
            )
    return priors


def calibration_of_nobody(cards: Sequence[Calibration], spec: DeviceSpec) -> Calibration | None:
    """The calibration of a device that nobody measured, from `cards` and its datasheet.

    Intervals are as wide as the errors between cards, or as those of a card by itself. None without
    cards of the present equations.
    """
    present = _of_present_equations(cards)
    if not present:
        return None
    stream = _stream_of(present, spec)
    constants = {
        name: _ceiling(name, _known(name, present, spec, stream), constant, present)
        for name, constant in present[0].constants.items()
        if "." not in name
    }
    units = float(spec.compute_units)
    constants["compute_units"] = Ceiling(
        value=units, ci95_low=units, ci95_high=units, unit="1", evidence="datasheet"
    )
    for op, pairs in priors_of(present, spec).items():
        for pair, prior in pairs.items():
            prefix = f"{op}.{'.'.join(pair)}."
            members = [card for card in present if card.device in prior.cards]
            of_pair = {n: c for n, c in members[0].constants.items() if n.startswith(prefix)}
            constants |= {
                name: constant
                if constant.unit == CODE
                else _ceiling(name, _known(name, members, spec, stream), constant, members)
                for name, constant in of_pair.items()
            }
    names = {name.rpartition(".")[0] for name in constants if "." in name}
    # Half-widths no narrower than those of a card by itself: two cards that are alike by chance
    # would else give a card that nobody measured narrower intervals than a measured one has.
    errors = {
        name: {
            key: max([error, *(c.probe_errors.get(name, {}).get(key, error) for c in present)])
            if _is_width(key)
            else error
            for key, error in errors.items()
        }
        for between in cards
        if not between.constants
        for name, errors in between.probe_errors.items()
        if name in names
    }
    spans = {n: span for card in reversed(present) for n, span in card.probe_spans.items()}
    return Calibration(
        device=spec.device,
        environment_id=f"{PRIOR_OF}{len(present)}-card{'s' if len(present) > 1 else ''}",
        constants={
            name: constant
            for name, constant in constants.items()
            if "." not in name or name.rpartition(".")[0] in errors
        },
        probe_errors=errors,
        probe_spans={name: span for name, span in spans.items() if name in errors},
        equations=current_equations(),
    )


def narrowed_errors(
    probe_errors: Mapping[str, Mapping[str, float]],
    cards: Sequence[Calibration],
    spec: DeviceSpec,
) -> dict[str, dict[str, float]]:
    """Errors of a calibration, its half-widths no wider than those of a card that nobody measured.

    Few probes predict each other badly: by the 32 casts and 16 products with narrow weights of a
    minute on an H100, half-widths on layers that no study lists (seed 1) were 93 and 288 %, and 44
    and 43 % by what an H200 says without any probe.
    """
    nobody = calibration_of_nobody(cards, spec)
    most = nobody.probe_errors if nobody else {}
    return {
        name: {
            key: min(error, most.get(name, {}).get(key, error)) if _is_width(key) else error
            for key, error in errors.items()
        }
        for name, errors in probe_errors.items()
    }


def unlike_other_cards(
    calibration: Calibration, cards: Sequence[Calibration], spec: DeviceSpec
) -> list[str]:
    """What other cards of its architecture contradict: "memory reads are 18% slower than ...".

    A speed is named where its whole 95 % interval lies farther from that of the others than cards
    of a model differ or, without any of this model, than SPREAD allows.

    Args:
        calibration: of the card.
        cards: see the module, without the card itself.
        spec: the card's datasheet.
    """
    present = _of_present_equations(cards)
    alike = [card for card in present if card.device == calibration.device]
    room = BETWEEN_CARDS if alike else SPREAD * _DEVIATIONS_IN_INTERVAL / 2
    sentences = []
    for name, words in _COMPARED.items():
        own = calibration.constants.get(name)
        others = [card for card in alike or present if name in card.constants]
        if own is None or not others:
            continue
        expected = _known(name, others, spec, _stream_of(others, spec)).value
        low, high = (end / expected - 1 for end in (own.ci95_low, own.ci95_high))
        if low > room or high < -room:
            devices = " and ".join(dict.fromkeys(card.device for card in others))
            far = own.value / expected - 1
            how = "faster" if far > 0 else "slower"
            source = "as published" if alike else "and the datasheets say"
            sentences.append(f"{words} are {abs(far):.0%} {how} than {devices} {source}")
    return sentences


def _is_width(key: str) -> bool:
    return key.startswith("log_p95")


def _of_present_equations(cards: Iterable[Calibration]) -> list[Calibration]:
    """The cards whose constants are of the equations here, those of most probes first."""
    own = (card for card in cards if card.constants and card.equations == current_equations())
    return sorted(own, key=lambda card: -card.probe_points)


def _yardstick(name: str, constant: Ceiling, spec: DeviceSpec, stream: float) -> float:
    """What a constant is a fraction of, see the module; 1 for those that cards share."""
    op, _, rest = name.partition(".")
    if not rest and name.startswith("dram_"):
        return spec.dram_bytes_per_s
    if rest:
        model = load_part(BY_NAME[op], "model")
        declared: Mapping[str, Constant] = getattr(model, "CONSTANTS", {})
        last = declared.get(name.rpartition(".")[2])
        if last is not None and last.datasheet == "dram_bytes_per_s":
            return stream
    peak, unit = spec.peak_flops_per_s["bf16"], constant.unit
    if unit in ("flop/s", "B/s", "1/s"):
        return peak
    return peak / spec.compute_units if unit in (f"flop/s{_OF_UNIT}", f"B/s{_OF_UNIT}") else 1.0


def _known(name: str, cards: Sequence[Calibration], spec: DeviceSpec, stream: float) -> Known:
    """A constant on a device, as the cards that have it know it."""
    own = _identified(name, cards) or [
        card.constants[name] for card in cards if name in card.constants
    ]
    logs = log(np.array([constant.value for constant in own]))
    ends = np.array([(constant.ci95_low, constant.ci95_high) for constant in own])
    widths = (log(ends[:, 1]) - log(ends[:, 0])) / _DEVIATIONS_IN_INTERVAL
    mean, variance = logs.sum() / len(own), (widths * widths).sum() / len(own) ** 2
    value = float(exp(np.array(mean))) * _yardstick(name, own[0], spec, stream)
    return Known(value, float(np.sqrt(SPREAD * SPREAD + variance)))


def _identified(name: str, cards: Sequence[Calibration]) -> list[Ceiling]:
    """A constant of those cards whose probes tell it; on the others its search ended on a bound.

    By an H100 whose probes did not tell the start of fp8_weight_only, 8 products of an H200 were
    6.9 % off when left out of the fit; they are 3.3 % off without that constant in the prior.
    """
    of_cards = (card.constants[name] for card in cards if name in card.constants)
    return [constant for constant in of_cards if ON_BOUND not in constant.evidence]


def _ceiling(name: str, known: Known, source: Ceiling, cards: Sequence[Calibration]) -> Ceiling:
    """A constant that nobody measured, with the interval in which cards of a kind lie."""
    factor = float(exp(np.array(known.deviation * _DEVIATIONS_IN_INTERVAL / 2)))
    devices = " and ".join(dict.fromkeys(card.device for card in cards if name in card.constants))
    return replace(
        source,
        value=known.value,
        ci95_low=known.value / factor,
        ci95_high=known.value * factor,
        evidence=f"prior of {devices}, by the datasheets",
    )


def _stream_of(cards: Sequence[Calibration], spec: DeviceSpec) -> float:
    return _known(_STREAM, cards, spec, 0.0).value if cards else spec.dram_bytes_per_s
