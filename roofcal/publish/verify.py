"""Derived files made again from the records of a run, and whether a publication holds.

It holds where its files are those of its manifest, and its records give its tables.
Derived files are made again without a GPU and compared byte by byte. Another processor may round
the last digits of a fit differently: numbers within ROUNDING of each other count as equal, and the
outcome says so.
"""

import math
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from roofcal.ask.breakeven import run_map
from roofcal.ask.devices import datasheet
from roofcal.ask.llm.sweep import run_table
from roofcal.calibrate import calibrate
from roofcal.core import paths
from roofcal.core.environments import origin_environment
from roofcal.core.files import folder_problems, read_limited, write_bytes
from roofcal.core.jsonl import RecordsError, encode, read_plan, read_records
from roofcal.core.language_models import load_models
from roofcal.core.manifest import NAME, ManifestError, differences, file_names, read_manifest
from roofcal.core.names import is_name
from roofcal.core.records import Environment, Measurement, Prediction, Session
from roofcal.judge.layers import JUDGED_OPS, unlisted_points
from roofcal.models.calibrations import cards_like
from roofcal.models.registry import predict_run
from roofcal.ops import BY_NAME, point_problem
from roofcal.report.data.provenance import ReportError
from roofcal.report.sections.claims import FILE as CLAIMS_FILE
from roofcal.report.write import tables_of_run

ROUNDING: Final = 1e-6  # relative: a thousandth of the narrowest interval of a constant
_NUMBER: Final = re.compile(rb"-?\d+\.?\d*(?:[eE][-+]?\d+)?")

# Files of a publication: what others hold would be hosted with it, a script or a program perhaps.
_FILES: Final = {paths.ENVIRONMENT_FILE, "calibration.jsonl", "moved.json", *paths.DERIVED_TABLES}
# What publications of earlier versions hold beside them. Nothing makes these files any more, so
# that the manifest alone vouches for them; `publish --again` leaves them out.
_NO_LONGER_MADE: Final = {"learning.csv", "tables/learning.csv", "tables/transfer.csv"}
_PAGES: Final = {"report.html", "details.html"}
_SUFFIXES: Final = {
    "plan": (".jsonl", ".jsonl.gz"),
    "measurements": (".jsonl", ".jsonl.gz"),
    "predictions": (".jsonl", ".jsonl.gz"),
    "tables": (".csv",),
}

State = Literal["holds", "no manifest", "does not hold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Whether one publication holds.

    problems  one sentence each, naming the file and the way out
    notes     no faults, but what a person may want to know: what was only rounded
    """

    folder: Path
    state: State
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def verify(folder: Path, *, quick: bool = False) -> Outcome:
    """Verify one publication, reports/published/<device>/<environment_id>.

    quick: hashes, records, and the CSV tables from records and published derived files; else the
    calibration, predictions, break-even map and language models are made again from the records
    too. A publication from before manifests was derived by a commit that nobody noted: its records
    are checked all the same, and what is derived otherwise today is a note.
    """
    strange = list(folder_problems(folder))
    if strange:  # then nothing of it is read: a link may point to anything
        return Outcome(folder=folder, state="does not hold", problems=tuple(strange), notes=())
    run = paths.RunFolder.at(folder)
    problems: list[str] = []
    notes: list[str] = []
    try:
        manifest = read_manifest(folder)
        problems += differences(folder, manifest) if manifest else []
    except ManifestError as error:
        manifest = {}
        problems.append(str(error))
    problems += [
        f"{folder / name}: is no file of a publication; remove it, it would be hosted with the rest"
        for name in (manifest or {}).get("files", ())
        if not _is_file_of_publication(name)
    ]
    problems += record_problems(run)
    if not problems:  # nothing can be derived from damaged records
        try:
            notes += [
                f"{judged.folder}: the layers of today give seed {seed} other points"
                for seed, judged in run.judged().items()
                if not is_drawn(judged, seed, run.device)
            ]
            for name, again in _made_again(run, quick):
                problem, note = _compare_bytes(folder / name, again)
                (problems if manifest else notes).extend([problem] if problem else [])
                notes += [note] if note else []
        except Exception as error:  # noqa: BLE001 (no page can be drawn from a published table)
            why = (
                str(error) if isinstance(error, ReportError) else f"{type(error).__name__}: {error}"
            )
            what = f"{folder}: its tables cannot be made again: {why}"
            (problems if manifest else notes).append(what)
    state: State = "no manifest" if manifest is None else "holds"
    return Outcome(
        folder=folder,
        state="does not hold" if problems else state,
        problems=tuple(problems),
        notes=tuple(notes),
    )


def _is_file_of_publication(name: str) -> bool:
    folder, _, file = name.partition("/")
    if folder in {paths.JUDGED, paths.CARDS}:
        place, _, record = file.partition("/")
        is_place = paths.SEED_FOLDER.fullmatch(place) if folder == paths.JUDGED else is_name(place)
        is_record = record.partition("/")[0] in {paths.ENVIRONMENT_FILE, "plan", "measurements"}
        return bool(is_place) and is_record and _is_file_of_publication(record)
    if not file:
        return name in {*_FILES, *_PAGES, *_NO_LONGER_MADE, NAME}
    return "/" not in file and file.endswith(_SUFFIXES.get(folder, ()))


def files_without_report(folder: Path) -> list[str]:
    """Files of a publication that its report is drawn from, and not the report and its tables."""
    names = (name for name in file_names(folder) if _is_file_of_publication(name))
    return [name for name in names if name not in _PAGES and not name.startswith("tables/")]


def record_problems(run: paths.RunFolder) -> Iterator[str]:
    """Files of records that cannot be read, or whose rows are not those of plan and environment.

    Those of judges and of further cards beside the run are checked, too.
    """
    try:
        beside = run.beside()
    except paths.PathError as error:
        yield str(error)
        return
    for records in (run, *beside.values()):
        yield from problems_of_records(records, run)


def names_of_cards(records: paths.RunFolder) -> set[str]:
    """The names of the cards that measured what is planned, as the folders of cards have them.

    A session that does not know its card is of 'an unknown card', one of several GPUs of 'several
    cards'. Raises RecordsError for bad files.
    """
    files = (records.measurements_file(op) for op in records.planned_ops())
    cards = (session.cards for file in files for session in read_records(file, Session))
    return {
        card[0][: paths.CARD_NAME]
        if len(card) == 1
        else "several cards"
        if card
        else "an unknown card"
        for card in cards
    }


def problems_of_records(records: paths.RunFolder, run: paths.RunFolder) -> Iterator[str]:
    """The same of one folder of records, of a run or of what lies beside it."""
    try:
        environments = read_records(records.environment_file, Environment)
    except RecordsError as error:
        yield str(error)
        return
    ids = [f"{e.device}/{e.environment_id}" for e in environments]
    if ids != [run.name]:
        described = ", ".join(ids) or "nothing"
        yield f"{records.environment_file}: describes {described}, not its folder; {_RESTORE}"
    try:
        planned, measured = records.planned_ops(), records.measured_ops()
    except paths.PathError as error:
        yield str(error)
        return
    if not planned:
        yield f"{records.folder}/plan: holds no plan; {_RESTORE}"
    beside = records.folder.parent.name
    is_published = records is run or beside in {paths.JUDGED, paths.CARDS}
    if is_published and (unplanned := set(measured) - set(planned)):
        names = ", ".join(sorted(unplanned))
        yield f"{records.folder}/measurements: holds {names} without a plan; {_RESTORE}"
    of_ops = [text for op in planned for text in _op_problems(records, op, run.environment_id)]
    yield from of_ops
    if beside == paths.JUDGED and (strange := set(planned) - {*JUDGED_OPS}):
        names = ", ".join(sorted(strange))
        yield f"{records.folder}/plan: holds {names}, of which no seed draws points; {_RESTORE}"
    if beside != paths.CARDS or of_ops:  # of a file that cannot be read
        return
    if (cards := names_of_cards(records)) != {records.folder.name}:
        on = " and ".join(sorted(cards)) or "no card"
        yield f"{records.folder}: was measured on {on}, not on the card of its name; {_RESTORE}"


def is_drawn(judged: paths.RunFolder, seed: int, device: str) -> bool:
    """Whether a plan has the points that a seed draws for a device, all of them and no others.

    A session that was stopped has the first ops alone: their order is fixed, so that nobody chooses
    among them. Raises RecordsError for a bad plan.
    """
    planned = {op: read_plan(judged, op, point_problem) for op in judged.planned_ops()}
    plans = (planned, unlisted_points(seed, device))
    ids, drawn = ({op: {p.point_id for p in own} for op, own in plan.items()} for plan in plans)
    return ids == {op: drawn[op] for op in JUDGED_OPS[: len(ids)]}


def claimed_twice(published: Path) -> Iterator[str]:
    """One sentence per environment that several publications say they are of.

    Raises RecordsError for a damaged environment.jsonl.
    """
    claimed: dict[str, list[Path]] = {}
    for run in paths.run_folders(published):
        for environment in read_records(run.environment_file, Environment):
            name = f"{environment.device}/{environment.environment_id}"
            claimed.setdefault(name, []).append(run.folder)
    for name, folders in claimed.items():
        if len(folders) > 1:
            yield (
                f"{' and '.join(map(str, folders))} are both of {name}: keep the one that "
                "`roofcal verify` says holds, and remove the other"
            )


def _op_problems(run: paths.RunFolder, op: str, environment_id: str) -> Iterator[str]:
    """Measurements of an op that are not of its plan or not of the environment."""
    measured = run.measurements_file(op)
    try:
        points = {point.point_id for point in read_plan(run, op, point_problem)}
        measurements = read_records(measured, Measurement)
    except RecordsError as error:
        yield f"{error}\n{_RESTORE}"
        return
    if points and not measurements:
        yield f"{measured}: holds no measurement of its plan; {_RESTORE}"
    environments = {m.environment_id for m in measurements}
    for what, strange in (
        ("of another environment", environments - {environment_id}),
        ("of points that are not planned", {m.point_id for m in measurements} - points),
    ):
        if strange:
            examples = ", ".join(sorted(strange)[:3])
            yield f"{measured}: holds measurements {what} ({examples}); {_RESTORE}"


_RESTORE: Final = "restore the folder with git, or publish the run again"


def _made_again(run: paths.RunFolder, quick: bool) -> Iterator[tuple[str, bytes]]:
    """(path in the publication, bytes) of every file that follows from others."""
    if not quick:
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(temporary) / run.name
            calibration, *others = derived_names(run)
            names = [calibration, *(name for name in others if (run.folder / name).is_file())]
            yield from derive(run, names, place)
    # Verdicts follow from the ledger of the commit that published, which grows on; the manifest
    # has their hash.
    tables = {f"tables/{path.name}" for path in (run.folder / "tables").glob("*.csv")}
    published = tables - {f"tables/{CLAIMS_FILE}", *_NO_LONGER_MADE}
    tables_again = tables_of_run(run.folder, paths.DEVICES)
    fresh = {f"tables/{name}": text.encode() for name, text in tables_again.items()}
    for name in sorted({*published, *fresh}):
        yield name, fresh.get(name, b"")


def _compare_bytes(path: Path, again: bytes) -> tuple[str | None, str | None]:
    """(what differs, what was only rounded) of a published file and its bytes made again."""
    published = read_limited(path) if path.is_file() else b""
    if published == again:
        return None, None
    lines = published.split(b"\n"), again.split(b"\n")
    if sorted(lines[0]) == sorted(lines[1]):
        return None, f"{path}: the same lines in another order"
    pairs = list(zip(*lines, strict=False))
    first = next((i for i, (x, y) in enumerate(pairs) if not _lines_agree(x, y)), None)
    if first is None and len(lines[0]) == len(lines[1]):
        return None, f"{path}: other last digits, within {ROUNDING:g} of those published"
    line = len(pairs) if first is None else first
    # some 60 characters of both lines, from shortly before where they differ
    ours, theirs = (side[line] if line < len(side) else b"" for side in lines)
    same = next((i for i, (x, y) in enumerate(zip(ours, theirs, strict=False)) if x != y), 0)
    start = max(0, same - 20)
    shown = [text[start : same + 40].decode("utf-8", "replace") for text in (ours, theirs)]
    return (
        f"{path}:{line + 1}: published {shown[0]!r}, the records give {shown[1]!r}; derive it anew "
        "(`roofcal publish --again FOLDER`), or verify with the commit of its manifest",
        None,
    )


def _lines_agree(one: bytes, other: bytes) -> bool:
    """Whether two lines say the same, their numbers within ROUNDING of each other."""
    if one == other:
        return True
    if _NUMBER.sub(b"#", one) != _NUMBER.sub(b"#", other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=ROUNDING) for a, b in pairs)


# --- derived files again ----------------------------------------------------------------------


def derived_names(run: paths.RunFolder) -> list[str]:
    """Files that `derive` can make of a run, the calibration first: the others are made from it."""
    studies = {op for op in run.measured_ops() if op in BY_NAME and BY_NAME[op].role == "study"}
    predictions = [f"predictions/{op}.jsonl" for op in sorted({*studies, *run.predicted_ops()})]
    return ["calibration.jsonl", *predictions, *paths.DERIVED_TABLES]


def derive(run: paths.RunFolder, names: Iterable[str], place: Path) -> Iterator[tuple[str, bytes]]:
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
                    text = encode(calibrate(folder, spec, cards=cards_like(spec))) + "\n"
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


def _other_calibrations(run: paths.RunFolder, op: str, place: Path) -> Iterator[Path]:
    """Calibrations of other environments that the present predictions of an op were made with."""
    file = run.predictions_file(op)
    predictions = read_records(file, Prediction) if file.is_file() else []
    origins = {origin_environment(prediction.model): None for prediction in predictions}
    for origin in filter(None, origins):
        folders = (place.parent / origin, run.folder.parent / origin)
        files = [paths.RunFolder.at(folder).calibration_file for folder in folders]
        yield files[0] if files[0].is_file() else files[1]
