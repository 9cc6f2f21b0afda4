"""Print how wrong the calibrated model is on probes left out of its fit: a run folder per argument.

python -m bench.fit_report results/nvidia-h200/<environment> reports/published/nvidia-h200/<...>
"""

import sys
from pathlib import Path

from roofcal.calibrate.fit_report import fit_report
from roofcal.core.devices import load_devices


def main(folders: list[str]) -> None:
    """Write the report of each run folder to the standard output."""
    specs = load_devices(Path("config/devices"))
    for folder in map(Path, folders):
        sys.stdout.write(fit_report(folder, specs.get(folder.resolve().parent.name)))


if __name__ == "__main__":
    main(sys.argv[1:])
