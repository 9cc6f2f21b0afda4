"""What the wave model knows of a device: section `wave` of config/devices/<device>.yaml.

`per_clock` is per compute unit and clock, except `l2_read_bytes_per_clock`, which is of the whole
device. docs/models.md says how the model uses each figure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from roofcal.core.yaml_files import Count, Number, Positive, Share, Sourced, Strict, Whole

NotNegative = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveDevice:
    """A device as the wave model sees it, in SI.

    matrix_flops_per_clock   of a compute unit by math dtype, dense
    matrix_fraction          of that rate which the largest products reach
    attention_fraction       of what large products reach, in the products of flash attention
    tiles                    (rows, columns) of C that one workgroup computes
    attention_rows           rows of Q that one workgroup keeps
    lds_reads                how often an element of A, of B is read from LDS (shared memory)
    memory_fraction          of the DRAM's bandwidth that a stream reaches
    product_memory_fraction  of that, in a product that memory bounds
    vector_per_clock         elements that one plain operation handles
    softmax_per_clock        elements per clock of each step of the softmax
    link_bytes_per_s         to all other GPUs, one direction
    link_peers               GPUs that share link_bytes_per_s; 1 where a switch gives all to one
    link_ranks               GPUs that the links reach, this one included
    """

    device: str
    compute_units: int
    clock_hz: float
    matrix_flops_per_clock: Mapping[str, float]
    matrix_fraction: float
    attention_fraction: float
    tiles: tuple[tuple[int, int], ...]
    attention_rows: tuple[int, ...]
    lds_bytes_per_clock: float
    lds_bytes: int
    lds_reads: tuple[float, float]
    l2_read_bytes_per_clock: float
    dram_bytes: float
    dram_bytes_per_s: float
    memory_fraction: float
    product_memory_fraction: float
    launch_s: float
    vector_per_clock: float
    softmax_per_clock: Mapping[str, float]
    reduction_clocks: float
    normalisation_reduction_clocks: float
    activation_clocks_per_element: Mapping[str, float]
    link_bytes_per_s: float
    link_fraction: float
    link_latency_s: float
    link_peers: int
    link_ranks: int

    @property
    def stream_bytes_per_s(self) -> float:
        """Bandwidth of memory that a kernel reaches."""
        return self.dram_bytes_per_s * self.memory_fraction

    @property
    def l2_bytes_per_clock_and_unit(self) -> float:
        """The share of the cache's bandwidth that a compute unit has when all are busy."""
        return self.l2_read_bytes_per_clock / self.compute_units


class SoftmaxSteps(Strict):
    """Elements per clock of each step of the softmax."""

    maximum: Positive
    subtract: Positive
    exponential: Positive
    sum: Positive
    scale: Positive


class Rates(Sourced[Annotated[dict[str, Positive], Field(min_length=1)]]):
    """A number by name, of a dtype or a function."""


class TileShapes(Sourced[Annotated[list[tuple[Whole, Whole]], Field(min_length=1)]]):
    """[rows, columns] of each tile."""


class RowCounts(Sourced[Annotated[list[Whole], Field(min_length=1)]]):
    """Numbers of rows."""


class OperandReads(Sourced[tuple[NotNegative, NotNegative]]):
    """[reads of A, reads of B]; 0 where two units share it, each storing and reading half."""


class SoftmaxRates(Sourced[SoftmaxSteps]):
    """Rates of the steps of the softmax."""


class WaveSection(Strict):
    """Section `wave` of a device's file; the rest of WaveDevice stands in its section `values`."""

    clock_mhz: Number
    matrix_flops_per_clock: Rates
    matrix_fraction: Share
    attention_fraction: Share
    tiles: TileShapes
    attention_rows: RowCounts
    lds_bytes_per_clock: Number
    lds_kib: Count
    lds_reads: OperandReads
    l2_read_bytes_per_clock: Number
    memory_fraction: Share
    product_memory_fraction: Share
    launch_us: Number
    vector_per_clock: Number
    softmax_per_clock: SoftmaxRates
    reduction_clocks: Number
    normalisation_reduction_clocks: Number
    activation_clocks_per_element: Rates
    link_fraction: Share
    link_latency_us: Number
    link_peers: Count
    link_ranks: Count
