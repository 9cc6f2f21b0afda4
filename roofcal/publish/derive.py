"""Every derived file of a run folder again, from its plan and measurements alone."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from roofcal.ask.breakeven_map import run_map
from roofcal.ask.devices import datasheet
from roofcal.ask.llm.sweep import run_table
from roofcal.calibrate.calibration import calibrate
from roofcal.core import paths
from roofcal.core.environments import origin_environment
from roofcal.core.files import write_bytes
from roofcal.core.jsonl import encode, read_records
from roofcal.core.language_models import load_models
from roofcal.core.paths import DERIVED_TABLES, RunFolder
from roofcal.core.records import Prediction
from roofcal.models.registry import predict_run
from roofcal.ops import BY_NAME
from roofcal.report.write import tables_of_run


def derived_names(run: RunFolder) -> list[str]:
    """Files that `derive` can make of a run, the calibration first: the others are made from it."""
    studies = {op for op in run.measured_ops() if op in BY_NAME and BY_NAME[op].role == "study"}
    predictions = [f"predictions/{op}.jsonl" for op in sorted({*studies, *run.predicted_ops()})]
    return ["calibration.jsonl", *predictions, *DERIVED_TABLES]


def derive(run: RunFolder, names: Iterable[str], place: Path) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of derived files of a run, made by the present code and written to `place`.

    Args:
        run: the run whose records are read, and whose models are predicted.
        names: of `derived_names`. What follows from a calibration is made from the one in `place`,
            never from that of the run: the calibration is derived before or comes first.
        place: folder <device>/<environment_id>. Calibrations of other environments are read from
            the folders beside it, or else beside the run's.

    Raises:
        ValueError: a file cannot be made; the message names it.
    """
    folder, calibration = run.folder, place / run.calibration_file.name
    for name in names:
        try:
            spec = datasheet(run.device)
            match name:
                case "calibration.jsonl":
                    text = encode(calibrate(folder, spec)) + "\n"
                case "breakeven.csv":
                    text = run_map(folder, calibration)
                case "llm.csv":
                    text = run_table(folder, calibration, spec, load_models(paths.MODELS))
                case _:
                    op = Path(name).stem
                    also = list(_other_calibrations(run, op, place))
                    predictions = predict_run(folder, calibration, op, spec, also=also)
                    text = "".join(encode(prediction) + "\n" for prediction in predictions)
        except ValueError as error:
            raise ValueError(f"{run.folder / name}: cannot be made again: {error}") from None
        write_bytes(place / name, text.encode())
        yield name, text.encode()


def report_tables(run: RunFolder) -> dict[str, bytes]:
    """tables/*.csv of a run by path in its folder, from its records and derived files."""
    tables = tables_of_run(run.folder, paths.DEVICES)
    return {f"tables/{name}": text.encode() for name, text in tables.items()}


def _other_calibrations(run: RunFolder, op: str, place: Path) -> Iterator[Path]:
    """Calibrations of other environments that the present predictions of an op were made with."""
    file = run.predictions_file(op)
    predictions = read_records(file, Prediction) if file.is_file() else []
    origins = {origin_environment(prediction.model): None for prediction in predictions}
    for origin in filter(None, origins):
        folders = (place.parent / origin, run.folder.parent / origin)
        files = [RunFolder.at(folder).calibration_file for folder in folders]
        yield files[0] if files[0].is_file() else files[1]
