"""What may stand in config/claims/<ledger>.yaml; config/schema/claims.schema.json is made of it."""

from datetime import date as Date  # noqa: N812 (a type, named as types are)
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Where = dict[str, str | int]  # column of the tidy table -> the value it must have
Quantity = Literal[
    "speedup", "time_us", "tflops", "fraction_of_peak", "fraction_of_bandwidth", "fraction_of_link"
]
Relation = Literal["about", ">=", "<="]
LinkConstant = Annotated[
    str, Field(pattern=r"^link\.[a-z_]+\.[1-9][0-9]*\.(latency_s|bytes_per_s)$")
]  # link.<collective>.<world size>.*
Constant = (
    Literal[
        "launch_graph_s",
        "launch_eager_s",
        "dram_read_bytes_per_s",
        "dram_write_bytes_per_s",
        "dram_copy_bytes_per_s",
    ]
    | LinkConstant
)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AsSource(_Model):
    """The same test on points timed as the source timed them; the verdict does not depend on it.

    points, against: what differs from those of the test.
    """

    label: Text
    points: Where = {}
    against: Where = {}


class Expression(_Model):
    """A statement about measured points, or about a constant of the calibration.

    op, points  rows of the op's tidy table, by default those of the standard protocol (graph,
                cold, normal data, first time, one processor)
    constant    instead of op and points
    against     for a speed-up: what differs in the points it is over (their time / that of points)
    pick        which of several points: only (there must be one), fastest (of all measured ones,
                those of the op's probe too), or the median of all
    quantity    speedup, time_us, tflops; or a fraction of the datasheet's dense rate, of its
                bandwidth of memory, or of that of its links in one direction
    relation    about: within `tolerance` of the value; >= and <=: at most `tolerance` below it,
                above it
    value       their number, in the unit of `quantity`; with `rows` each row has its own
    tolerance   fraction of `value`
    """

    op: Text | None = None
    points: Where = {}
    constant: Constant | None = None
    against: Where | None = None
    pick: Literal["only", "fastest", "median"] = "only"
    quantity: Quantity
    relation: Relation = "about"
    value: Positive | None = None
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.1
    as_source: AsSource | None = None

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "Expression":
        if (self.op is None) == (self.constant is None):
            raise ValueError("a test needs either `op` with `points`, or `constant`")
        if (self.quantity == "speedup") != (self.against is not None):
            raise ValueError("a speedup needs `against`, and nothing else may have it")
        if self.quantity == "speedup" and self.pick == "median":
            raise ValueError("a speedup is of single points: pick only or fastest")
        if self.relation == "about" and self.tolerance == 0:
            raise ValueError("`about` needs a tolerance above 0")
        if self.constant and (self.points or self.as_source):
            raise ValueError("a constant is one number: it has neither `points` nor `as_source`")
        if self.constant and self.quantity != (quantity := _constant_quantity(self.constant)):
            raise ValueError(f"'{self.constant}' is a {quantity}, no {self.quantity}")
        if not self.constant and self.quantity == "fraction_of_link":
            raise ValueError("a fraction_of_link is of a constant of links, and of no points")
        return self


def _constant_quantity(constant: Constant) -> Quantity:
    if not constant.endswith("bytes_per_s"):
        return "time_us"
    return "fraction_of_link" if constant.startswith("link.") else "fraction_of_bandwidth"


class Claim(_Model):
    """One statement of a source; with `rows`, one per row of its table.

    says        in words; {shape} and {value} stand for the row's
    test        None for a claim that cannot be tested here, which `untestable` explains
    printed     the numbers they printed beside the one that is tested, with units in their names
    rows        sizes (by axis, or `cube` for all of them), `value`, and printed numbers
    hardware, device  where they differ from those of the file
    note        what a reader must know to compare
    """

    id: Name
    says: Text
    test: Expression | None = None
    untestable: Text | None = None
    printed: dict[str, Finite] = {}
    rows: Annotated[list[dict[str, Finite]], Field(min_length=1)] | None = None
    hardware: Text | None = None
    device: Text | None = None
    note: str = ""

    @model_validator(mode="after")
    def _has_a_test_or_a_reason(self) -> "Claim":
        if (self.test is None) == (self.untestable is None):
            raise ValueError("a claim needs either `test` or `untestable` with the reason")
        missing = [row for row in self.rows or () if "value" not in row]
        if missing:
            raise ValueError(f"row {missing[0]} has no `value`")
        negative = [row for row in self.rows or () if row["value"] <= 0]
        if negative:
            raise ValueError(f"row {negative[0]} has a `value` that is not above 0")
        if self.test and not self.rows and self.test.value is None:
            raise ValueError("test.value is missing, and required without `rows`")
        if self.test and self.rows and self.test.value is not None:
            raise ValueError("the value stands in `rows` or in `test`, not in both")
        return self


class AwaitedOp(_Model):
    """The names of an op that is not built yet; they are not used once it is."""

    axes: Annotated[list[Text], Field(min_length=1)]
    recipes: Annotated[list[Text], Field(min_length=1)]
    providers: Annotated[list[Text], Field(min_length=1)]

    def has_recipe(self, name: str) -> bool:
        """As roofcal.ops.spec.OpSpec.has_recipe."""
        return name in self.recipes

    @property
    def every_provider(self) -> list[str]:
        """As roofcal.ops.spec.OpSpec.every_provider."""
        return self.providers


class Ledger(_Model):
    """config/claims/<ledger>.yaml: the claims of one source.

    hardware  what the numbers were made on, in words; `device` is its id in config/devices, if any
    caveat    what holds for all of its claims
    """

    ledger: Name
    title: Text
    url: Annotated[str, Field(pattern=r"^https://")] | None = None
    date: Text | int | Date
    hardware: Text
    device: Text | None = None
    caveat: str = ""
    awaited: dict[str, AwaitedOp] = {}
    claims: Annotated[list[Claim], Field(min_length=1)]
