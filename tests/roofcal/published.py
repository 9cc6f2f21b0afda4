"""A small finished run with everything derived, published: what verify and derive are tried on."""

from pathlib import Path

from roofcal.ask.breakeven_map import run_map
from roofcal.calibrate.calibration import calibrate
from roofcal.calibrate.learning import learning_csv
from roofcal.core.jsonl import write_records
from roofcal.publish.derive import Descriptions
from roofcal.publish.freeze import publish
from tests.paths import ROOT
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, write_run

DESCRIPTIONS = Descriptions(devices=ROOT / "config/devices", models=ROOT / "config/models")


def publish_made_up(folder: Path, *, curves: bool = False) -> Path:
    """The publication of made-up probes, below `folder`; learning curves take five seconds."""
    run = write_run(folder / "results" / ENVIRONMENT.device / ENVIRONMENT.environment_id)
    write_records(run / "calibration.jsonl", [calibrate(run)])
    (run / "breakeven.csv").write_text(run_map(run, run / "calibration.jsonl"))
    if curves:
        (run / "learning.csv").write_text(learning_csv(run))
    return publish(run, folder / "published", DESCRIPTIONS.devices)
