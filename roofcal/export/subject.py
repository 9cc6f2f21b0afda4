"""What is exported: a calibration with the datasheet and the environment of its device."""

from dataclasses import dataclass
from typing import Final

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.records import Calibration, Ceiling, Environment
from roofcal.export.errors import ExportError
from roofcal.ops.gemm.fitted import CEILING, OP, default_provider, pairs

COPY: Final = "dram_copy_bytes_per_s"
READ: Final = "dram_read_bytes_per_s"
LAUNCH: Final = "launch_graph_s"
_TABLES: Final = "csv, json, yaml, markdown or latex"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A calibrated rate and what the vendor prints for it, both in SI.

    `peak * fraction` is `value` always. A rate above the datasheet (a card that clocks higher than
    its vendor promises) is its own peak, because consumers refuse fractions above 1.
    """

    name: str
    value: float
    printed: float | None

    @property
    def peak(self) -> float:
        """The datasheet's figure, or the calibrated rate where that is higher or there is none."""
        return max(self.value, self.printed or 0.0)

    @property
    def fraction(self) -> float:
        """value / peak, in (0, 1]."""
        return self.value / self.peak


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A calibration and what is known of its device; None where nobody wrote it down."""

    calibration: Calibration
    spec: DeviceSpec | None = None
    environment: Environment | None = None

    @property
    def sheet(self) -> DeviceSpec:
        """The datasheet; raises ExportError without one."""
        if self.spec is None:
            device = self.calibration.device
            raise ExportError(
                f"needs the datasheet of {device}, and there is no config/devices/{device}.yaml; "
                f"write it (CONTRIBUTING.md says how), or export {_TABLES}, which need none"
            )
        return self.spec

    @property
    def device_name(self) -> str:
        """What torch.cuda.get_device_name() prints on the calibrated card."""
        return self.environment.device_name if self.environment else self.sheet.names[0]

    @property
    def memory_bytes(self) -> int:
        """What the driver offered on the calibrated card; without a record, the datasheet's."""
        offered = self.environment.memory_bytes if self.environment else None
        return offered or self.sheet.dram_bytes

    def constant(self, name: str) -> Ceiling:
        """A calibrated constant; raises ExportError, naming it, where it was not fitted."""
        found = self.calibration.constants.get(name)
        if found is None:
            raise self._lacks(f"no constant '{name}'")
        return found

    def math(self, dtype: str) -> Rate | None:
        """The fastest product that probes of a math dtype reached, over its recipes; or None.

        It is what the report calls "Fastest product": a rate that was seen, on random shapes that
        no study sweep holds, so a well-shaped product can be faster (on an H200 by 7 to 23 %,
        recipe by recipe). Of the provider that models take where nobody is named: the library's, or
        where it has no constants of a recipe the fastest. The fitted rates
        (`sustained_flops_per_s`, `tile_flops_per_s`) are parts of a model and extrapolate: they may
        exceed what the card can do.
        """
        known = self.calibration.constants
        names = [
            f"{OP}.{default_provider(known, recipe)}.{recipe}.{CEILING}"
            for recipe in dict.fromkeys(recipe for _, recipe in pairs(known))
            if recipe in GEMM_RECIPES and GEMM_RECIPES[recipe].math_dtype == dtype
        ]
        fastest = max((n for n in names if n in known), key=lambda n: known[n].value, default=None)
        if fastest is None:
            return None
        return Rate(
            name=fastest,
            value=known[fastest].value,
            printed=self.spec.peak_flops_per_s.get(dtype) if self.spec else None,
        )

    def needed_math(self, dtype: str) -> Rate:
        """As `math`; raises ExportError, naming the constant, where no recipe was calibrated."""
        found = self.math(dtype)
        if found is None:
            raise self._lacks(
                f"no constant 'gemm.<provider>.<recipe>.{CEILING}' of a recipe in {dtype}"
            )
        return found

    def memory(self, name: str) -> Rate:
        """A bandwidth of the memory beside the datasheet's; raises ExportError where missing."""
        value = self.constant(name).value
        return Rate(name=name, value=value, printed=self.sheet.dram_bytes_per_s)

    def printed_math(self, dtype: str) -> float:
        """The datasheet's rate of a math dtype; raises ExportError where it prints none."""
        found = self.sheet.peak_flops_per_s.get(dtype)
        if found is None:
            raise ExportError(f"needs the rate of {dtype}, which {self._file} does not give")
        return found

    @property
    def link_bytes_per_s(self) -> float:
        """One direction, to all other GPUs, by the datasheet; raises ExportError without."""
        found = self.sheet.link_bytes_per_s
        if found is None:
            raise ExportError(f"needs a link between GPUs, and {self._file} has no link_gb_per_s")
        return found

    def provenance(self, form: str) -> list[str]:
        """Lines for the comments of a file: whose constants they are, and how to make it again."""
        found = self.calibration
        return [
            f"device {found.device}, environment {found.environment_id}",
            f"fitted on {found.probe_points} probe points, seed {found.seed}",
            f"made by: {self.command(form)}",
        ]

    def command(self, form: str) -> str:
        """The command that makes the same bytes again."""
        found = self.calibration
        return (
            f"python -m roofcal export --device {found.device}"
            f" --environment {found.environment_id} --format {form}"
        )

    @property
    def _file(self) -> str:
        return f"config/devices/{self.calibration.device}.yaml"

    def _lacks(self, what: str) -> ExportError:
        found = self.calibration
        return ExportError(
            f"the calibration of {found.device} in {found.environment_id} has {what}; "
            "measure and fit that probe again (`make study`), or choose another --environment"
        )


def comment(lines: list[str], mark: str = "#") -> str:
    """Lines as comments, each behind `mark`."""
    return "".join(f"{mark} {line}\n" for line in lines)
