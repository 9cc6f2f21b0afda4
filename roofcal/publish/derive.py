"""Every derived file of a run folder again, from its plan and measurements alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from roofcal.ask.breakeven_map import run_map
from roofcal.ask.llm.table import run_table
from roofcal.calibrate.calibration import calibrate
from roofcal.calibrate.learning import learning_csv
from roofcal.core.devices import DeviceSpec
from roofcal.core.environments import origin_environment
from roofcal.core.jsonl import encode, read_records, write_records
from roofcal.core.language_models import load_models
from roofcal.core.records import Prediction, Record
from roofcal.models.run import predict_run
from roofcal.report.write import tables_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What derived files are made of beside records: all of it is part of a checkout."""

    spec: DeviceSpec | None
    devices: Path
    models: Path


def derivations(folder: Path, known: Known, place: Path) -> Mapping[str, Callable[[], bytes]]:
    """File of a published run -> how its bytes are made again, in the order to call them in.

    The calibration comes first and is left in `place`, an empty folder: what follows is made from
    that one, never from the published. Predictions with the calibration of another environment are
    made from the one published beside it. Functions raise what the stages raise.
    """
    fresh = place / "calibration.jsonl"

    def calibration() -> bytes:
        write_records(fresh, [calibrate(folder, known.spec)])
        return fresh.read_bytes()

    def predictions(op: str) -> Callable[[], bytes]:
        def made() -> bytes:
            also = _others(folder, op)
            return _lines(predict_run(folder, fresh, op, known.spec, also=also))

        return made

    ops = sorted(path.stem for path in (folder / "predictions").glob("*.jsonl"))
    tables: dict[str, Callable[[], bytes]] = {
        "breakeven.csv": lambda: run_map(folder, fresh).encode(),
        "llm.csv": lambda: run_table(folder, fresh, known.spec, load_models(known.models)).encode(),
        "learning.csv": lambda: learning_csv(folder, known.spec).encode(),
    }
    return (
        {"calibration.jsonl": calibration}
        | {f"predictions/{op}.jsonl": predictions(op) for op in ops}
        | {name: made for name, made in tables.items() if (folder / name).is_file()}
    )


def tables(folder: Path, devices: Path) -> dict[str, bytes]:
    """tables/*.csv of a run by path in its folder, from its records and derived files."""
    return {f"tables/{name}": text.encode() for name, text in tables_of(folder, devices).items()}


def _others(folder: Path, op: str) -> list[Path]:
    """Calibrations of other environments that the published predictions of an op were made with."""
    path = folder / "predictions" / f"{op}.jsonl"
    models = dict.fromkeys(p.model for p in read_records(path, Prediction))
    origins = [origin for model in models if (origin := origin_environment(model)) is not None]
    return [folder.parent / origin / "calibration.jsonl" for origin in origins]


def _lines(records: list[Prediction]) -> bytes:
    lines: list[Record] = list(records)
    return "".join(encode(record) + "\n" for record in lines).encode()
