"""Every derived file of a run folder again, from its plan and measurements alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from roofcal.ask.breakeven_map import run_map
from roofcal.ask.llm.csv_table import run_table
from roofcal.calibrate.calibration import calibrate
from roofcal.calibrate.learning import learning_csv
from roofcal.core.devices import DeviceSpec
from roofcal.core.environments import origin_environment
from roofcal.core.jsonl import encode, read_records, write_records
from roofcal.core.language_models import load_models
from roofcal.core.paths import RunFolder
from roofcal.core.records import Prediction
from roofcal.models.run import predict_run
from roofcal.report.write import tables_of_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptions:
    """What derived files are made of beside records; all of it is part of a checkout.

    spec     the datasheet of the device, None where nobody wrote one
    devices  folder of all datasheets
    models   folder of language models
    """

    spec: DeviceSpec | None
    devices: Path
    models: Path


def derivations(
    run: RunFolder, descriptions: Descriptions, place: Path
) -> Mapping[str, Callable[[], bytes]]:
    """File of a published run -> how its bytes are made again, in the order to call them in.

    The calibration comes first and is left in `place`, an empty folder: what follows is made from
    that one, never from the published. Predictions with the calibration of another environment are
    made from the one published beside it. Functions raise what the stages raise.
    """
    folder, spec = run.folder, descriptions.spec
    fresh = place / run.calibration_file.name

    def calibration() -> bytes:
        write_records(fresh, [calibrate(folder, spec)])
        return fresh.read_bytes()

    def predictions(op: str) -> bytes:
        also = _other_calibrations(run, op)
        return "".join(
            encode(prediction) + "\n"
            for prediction in predict_run(folder, fresh, op, spec, also=also)
        ).encode()

    def derived_table(name: str) -> bytes:
        return derived_tables[name]().encode()

    derived_tables: dict[str, Callable[[], str]] = {
        "breakeven.csv": lambda: run_map(folder, fresh),
        "llm.csv": lambda: run_table(folder, fresh, spec, load_models(descriptions.models)),
        "learning.csv": lambda: learning_csv(folder, spec),
    }
    steps: dict[str, Callable[[], bytes]] = {run.calibration_file.name: calibration}
    steps |= {f"predictions/{op}.jsonl": partial(predictions, op) for op in run.predicted_ops()}
    published = [name for name in derived_tables if run.table_file(name).is_file()]
    return steps | {name: partial(derived_table, name) for name in published}


def report_tables(run: RunFolder, devices: Path) -> dict[str, bytes]:
    """tables/*.csv of a run by path in its folder, from its records and derived files."""
    tables = tables_of_run(run.folder, devices)
    return {f"tables/{name}": text.encode() for name, text in tables.items()}


def _other_calibrations(run: RunFolder, op: str) -> list[Path]:
    """Calibrations of other environments that the published predictions of an op were made with."""
    models = dict.fromkeys(p.model for p in read_records(run.predictions_file(op), Prediction))
    origins = (origin_environment(model) for model in models)
    return [
        RunFolder.at(run.folder.parent / origin).calibration_file
        for origin in origins
        if origin is not None
    ]
