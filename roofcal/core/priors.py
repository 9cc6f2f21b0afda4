"""What other cards say of the constants of a provider and recipe, before a probe is measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Known(NamedTuple):
    """A constant as other cards tell it; deviation: standard deviation of its logarithm."""

    value: float
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Constants as they would be on the device that is fitted.

    family     of the equation; "" where nothing is known
    constants  last part of their names -> what is known
    cards      whose constants they are made of
    """

    family: str = ""
    constants: Mapping[str, Known] = field(default_factory=dict)
    cards: tuple[str, ...] = ()
