"""The MI300X of the notebook: its own numbers and no others, so that its printed figures come out.

The file beside this module is no device of config/devices: some of its numbers are wrong (5.3 and
6.4 Gbit/s a pin in two cells of one notebook). docs/models.md lists what follows from them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from roofcal.core.wave_device import WaveDevice, WaveSection
from roofcal.core.yaml_files import (
    ConfigError,
    Count,
    Number,
    Share,
    Source,
    Strict,
    Text,
    read_sourced,
    si_fields,
)

FILE: Final = Path(__file__).parent / "amd-mi300x-notebook.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookDevice(WaveDevice):
    """A wave device with the numbers that only the notebook's own formulas use, in SI.

    launch_loss              taken off the efficiency of every product
    write_bytes_per_clock    of a compute unit
    operand_depth            K between two stores of a tile in LDS
    estimate_*               bandwidth and fractions of the first cell, which differ from the second
    """

    launch_loss: float
    write_bytes_per_clock: float
    write_fraction: float
    operand_depth: int
    normalisation_bytes_per_element: float
    estimate_dram_bytes_per_s: float
    estimate_memory_fraction: float
    estimate_matrix_fraction: float


class _Values(WaveSection):
    compute_units: Count
    dram_gb: Number
    dram_gb_per_s: Number
    link_gb_per_s: Number  # one direction


class _Notebook(Strict):
    launch_loss: Share
    write_bytes_per_clock: Number
    write_fraction: Share
    operand_depth: Count
    normalisation_bytes_per_element: Number
    estimate_dram_gb_per_s: Number
    estimate_memory_fraction: Share
    estimate_matrix_fraction: Share


class _File(Strict):
    device: Text
    sources: Annotated[dict[str, Source], Field(min_length=1)]
    values: _Values
    notebook: _Notebook


def load_notebook_device(path: Path = FILE) -> NotebookDevice:
    """The notebook's device; raises ConfigError with everything wrong with the file."""
    errors: list[str] = []
    file = read_sourced(_File, path, ("values", "notebook"), errors)
    if file is None:
        raise ConfigError("\n".join(errors))
    return NotebookDevice(device=file.device, **si_fields(file.values), **si_fields(file.notebook))
