"""What is exported: a calibration with the datasheet and the environment of its device."""

import pprint
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from roofcal.core.devices import DeviceSpec
from roofcal.core.jsonl import read_single_record
from roofcal.core.paths import RunFolder
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.records import Calibration, Ceiling, Environment
from roofcal.ops.gemm.model import CEILING, calibrated_recipes, default_provider

LAUNCH: Final = "launch_graph_s"
_TABLES: Final = "csv, json, yaml, markdown or latex"


class ExportError(ValueError):
    """A format that cannot be written; the message says what is missing and the way out."""


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
    """A calibration, the datasheet of its device and the environment, where they are recorded."""

    calibration: Calibration
    spec: DeviceSpec | None = None
    environment: Environment | None = None

    @classmethod
    def of_run(cls, run: RunFolder, calibration: Calibration, spec: DeviceSpec | None) -> "Subject":
        """The subject of a run folder, with its environment where that is recorded."""
        recorded = run.environment_file
        environment = read_single_record(recorded, Environment) if recorded.is_file() else None
        return cls(calibration=calibration, spec=spec, environment=environment)

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
        constant = self.calibration.constants.get(name)
        if constant is None:
            raise self._missing_error(f"no constant '{name}'")
        return constant

    def fastest_product(self, dtype: str) -> Rate | None:
        """The rate of the fastest product that probes of a math dtype reached; or None.

        It was seen on random shapes, so a well-shaped product can be faster (on an H200 by 7 to
        23 %). It belongs to the library, or to the fastest provider of a recipe that the library
        was not calibrated for. Fitted rates may exceed what the card can do: they extrapolate.
        """
        constants = self.calibration.constants
        names = [
            f"gemm.{default_provider(constants, recipe)}.{recipe}.{CEILING}"
            for recipe in calibrated_recipes(self.calibration)
            if recipe in GEMM_RECIPES and GEMM_RECIPES[recipe].math_dtype == dtype
        ]
        rates = {name: constants[name].value for name in names if name in constants}
        if not rates:
            return None
        fastest = max(rates, key=lambda name: rates[name])
        printed = self.spec.peak_flops_per_s.get(dtype) if self.spec else None
        return Rate(name=fastest, value=rates[fastest], printed=printed)

    def required_product(self, dtype: str) -> Rate:
        """As fastest_product; raises ExportError where no recipe of the dtype was calibrated."""
        rate = self.fastest_product(dtype)
        if rate is None:
            raise self._missing_error(
                f"no constant 'gemm.<provider>.<recipe>.{CEILING}' of a recipe in {dtype}"
            )
        return rate

    def bandwidth(self, name: str) -> Rate:
        """A calibrated bandwidth of the memory, COPY or READ; raises ExportError where missing."""
        value = self.constant(name).value
        return Rate(name=name, value=value, printed=self.sheet.dram_bytes_per_s)

    def datasheet_rate(self, dtype: str) -> float:
        """The datasheet's rate of a math dtype; raises ExportError where it prints none."""
        rate = self.sheet.peak_flops_per_s.get(dtype)
        if rate is None:
            raise ExportError(f"needs the rate of {dtype}, which {self._device_file} does not give")
        return rate

    @property
    def link_bytes_per_s(self) -> float:
        """One direction, to all other GPUs, by the datasheet; raises ExportError without."""
        bandwidth = self.sheet.link_bytes_per_s
        if bandwidth is None:
            raise ExportError(
                f"needs a link between GPUs, and {self._device_file} has no link_gb_per_s"
            )
        return bandwidth

    def provenance(self, form: str) -> list[str]:
        """Lines for the comments of a file: whose constants they are, and how to make it again."""
        calibration = self.calibration
        return [
            f"device {calibration.device}, environment {calibration.environment_id}",
            f"fitted on {calibration.probe_points} probe points, seed {calibration.seed}",
            f"made by: {self.command(form)}",
        ]

    def command(self, form: str) -> str:
        """The command that makes the same bytes again."""
        calibration = self.calibration
        return (
            f"roofcal export --device {calibration.device}"
            f" --environment {calibration.environment_id} --format {form}"
        )

    @property
    def _device_file(self) -> str:
        return f"config/devices/{self.calibration.device}.yaml"

    def _missing_error(self, what: str) -> ExportError:
        calibration = self.calibration
        return ExportError(
            f"the calibration of {calibration.device} in {calibration.environment_id} has {what}; "
            "measure and fit that probe again (`make study`), or choose another --environment"
        )


# A format as text: equal for equal subjects. Raises ExportError where something is missing.
Writer: TypeAlias = Callable[[Subject], str]


def comment_lines(lines: Iterable[str], mark: str = "#") -> str:
    """Lines as comments, each behind `mark`."""
    return "".join(f"{mark} {line}\n" for line in lines)


def python_literal(table: Mapping[str, Any], comments: Iterable[str]) -> str:
    """A dict that ast.literal_eval reads, below comments."""
    return f"{comment_lines(comments)}{pprint.pformat(dict(table), sort_dicts=False, width=100)}\n"
