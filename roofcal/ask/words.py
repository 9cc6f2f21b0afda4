"""Sentences that several answers share: whose numbers they are, and what makes them less sure."""

from collections.abc import Sequence
from typing import Final

from roofcal.ask.answers import Record
from roofcal.ask.beyond_probes import FAR
from roofcal.ask.measured import ChoiceRecord

WEIGHTS_WORDS: Final = {"cached": "cast beforehand", "cast": "cast each time"}


def origin_words(record: Record) -> str:
    """Model, device and environment of an answer, or which description of the device it read."""
    described = "its wave description" if record["model"] == "wave" else "its datasheet"
    provider = f"provider {record['provider']}, " if "provider" in record else ""
    environment = record["environment"] or described
    return f"model {record['model']}, {provider}{record['device']}, {environment}"


def choices_words(choices: ChoiceRecord, what: str, points: str) -> str:
    """How often it was right to take the provider or recipe that is predicted to be the fastest."""
    return (
        f"the {what} predicted to be the fastest was the fastest on {choices.right} of "
        f"{choices.points} measured {points}, and {choices.mean_regret:.1%} slower than the "
        f"fastest on average, {choices.worst_regret:.0%} at worst"
    )


def extrapolation_words(doublings: float) -> str:
    """That an answer lies so many doublings outside of its probes."""
    if doublings > FAR:
        return (
            f"extrapolated far outside: {doublings:.1f} doublings beyond every probe; nothing "
            "measured says how wide an interval should be there, and this one is a guess"
        )
    return f"extrapolated: {doublings:.1f} doublings beyond every probe, with a wider interval"


def unprobed_words(unprobed: Sequence[str]) -> str:
    """What no probe is like."""
    return (
        f"no probe is of this kind: {'; '.join(unprobed)}; "
        "its interval is the widest that such shapes have with any provider"
    )
