"""What several commands share: types of arguments, files of a device, where text goes."""

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from roofcal.core import paths
from roofcal.core.paths import RunFolder

if TYPE_CHECKING:
    from roofcal.core.devices import DeviceSpec
    from roofcal.ops.time_models import Sources

# What add_subparsers gives; argparse has no public name for it.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def whole_number(text: str) -> int:
    """A size from the command line; raises ArgumentTypeError unless it is whole and above 0."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def fraction(text: str) -> float:
    """A fraction from the command line; raises ArgumentTypeError unless it is in (0, 1)."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a fraction between 0 and 1, as 0.02 is")
    return value


def require(options: argparse.Namespace, command: str, *names: str) -> None:
    """Raises ValueError naming the options that a command needs and that were not given."""
    missing = [f"--{name}" for name in names if getattr(options, name, None) is None]
    if missing:
        raise ValueError(f"{command} needs {' '.join(missing)}")


def add_run_folder(parser: argparse.ArgumentParser, help_text: str = "run folder") -> None:
    """Declare the required --run of a command that works on one run folder."""
    parser.add_argument("--run", type=Path, required=True, dest="folder", help=help_text)


def add_map_of_run(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare --run, --calibration and --out of a command that also writes a CSV for a whole run.

    what: the content of that CSV, in words.
    """
    parser.add_argument("--run", type=Path, dest="folder", help=f"{what} of a run folder, as CSV")
    parser.add_argument("--calibration", type=Path, help="with --run: the calibration to use")
    parser.add_argument("--out", type=Path, help="with --run: write here")


def calibration_file(options: argparse.Namespace) -> Path:
    """The calibration to use with --run: --calibration, or the one of the run folder."""
    given: Path | None = options.calibration
    return given or RunFolder.at(options.folder).calibration_file


def write_or_print(text: str, out: Path | None) -> None:
    """Write `text` to the file `out`, whole or not at all; to the standard output without one."""
    from roofcal.core.files import write_bytes

    if out:
        write_bytes(out, text.encode())
    else:
        sys.stdout.write(text)


def datasheet(device: str) -> "DeviceSpec | None":
    """The datasheet of a device id, or None where nobody wrote one."""
    from roofcal.core.devices import load_device

    path = paths.DEVICES / f"{device}.yaml"
    return load_device(path) if path.is_file() else None


def device_sources(device: str, environment: str | None, model: str) -> "tuple[Sources, Path]":
    """(what a model of time reads of a device, the file or folder it comes from).

    Each model gets what it needs and no more: a datasheet costs a tenth of a second to read, and
    not every device has a calibration. Raises PredictError where no calibration matches, and where
    nobody described the device for the wave model.
    """
    from roofcal.core.devices import load_devices
    from roofcal.models.calibrations import find_calibration
    from roofcal.models.errors import PredictError
    from roofcal.ops.time_models import Sources

    if model == "calibrated":
        folder, calibration = find_calibration(device, environment, paths.PUBLISHED, paths.RESULTS)
        return Sources(calibration=calibration), folder
    specs = load_devices(paths.DEVICES)
    spec = specs.get(device)
    if model == "wave" and (spec is None or spec.wave is None):
        from roofcal.models.wave.model import missing_description

        raise PredictError(missing_description(device, specs))
    return Sources(spec=spec), paths.DEVICES / f"{device}.yaml"
