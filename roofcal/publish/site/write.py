"""The pages of the site and the data that their scripts read."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import pandas as pd

from roofcal.claims import Entry, load_claims
from roofcal.core import paths
from roofcal.core.devices import DeviceSpec, load_devices
from roofcal.core.files import write_bytes
from roofcal.core.jsonl import read_single_record
from roofcal.core.language_models import load_models
from roofcal.core.manifest import NAME, read_manifest, write_manifest
from roofcal.core.paths import RunFolder, run_folders
from roofcal.core.records import Calibration, Environment
from roofcal.export.formats import FORMATS, export
from roofcal.export.subject import ExportError, Subject
from roofcal.fitting.parallel import parallel_map
from roofcal.points.run import load_run
from roofcal.publish.site import devices
from roofcal.publish.site.points import language_model_rows, measured_points, modelled_points
from roofcal.publish.verify import files_without_report, verify
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.cards import cards_sentence
from roofcal.report.kit.charts import Axis, Chart, Layer, LegendEntry, Panel, Tip
from roofcal.report.kit.templates import FOLDER, packed_json, render
from roofcal.report.kit.vega import page_charts
from roofcal.report.shape_box import ShapeBox
from roofcal.report.write import in_page_order, write_report

# Page -> its name in the navigation, in order
PAGES: Final = {
    "index": "Devices",
    "compare": "Compare",
    "shapes": "Shapes",
    "models": "Language models",
    "claims": "Claims",
    "submit": "Submit yours",
}
_INDEX: Final = "index.json"
_OWN: Final = ("devices", "assets")  # folders of the site; what a former site left there goes


class SiteError(ValueError):
    """A folder that a site cannot be written to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A folder that is not shown, and why."""

    key: str
    problems: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class _Site:
    """What the pages show; specs: datasheets by device."""

    publications: Sequence[Analysis]
    left_out: Sequence[LeftOut]
    specs: Mapping[str, DeviceSpec]
    claims: Sequence[Entry]

    def of_device(self, device: str) -> list[Analysis]:
        """The publications of a device, the newest first."""
        return [p for p in self.publications if p.device == device]

    @property
    def device_names(self) -> dict[str, str]:
        """Device id -> its name: measured ones first, then those with a datasheet only."""
        newest = {p.device: p.device_name for p in reversed(self.publications)}
        measured = {device: newest[device] for device in reversed(newest)}
        return measured | {d: s.names[0] for d, s in self.specs.items() if d not in measured}

    @cached_property
    def exports(self) -> dict[str, dict[str, dict[str, str]]]:
        """Publication -> format -> its text, or the reason why it cannot be written in it."""
        files: dict[str, dict[str, dict[str, str]]] = {p.key: {} for p in self.publications}
        for publication in self.publications:
            calibration, own = publication.run.calibration, publication.run.environment
            if calibration is None:
                continue
            subject = Subject(calibration=calibration, spec=publication.spec, environment=own)
            for name in FORMATS:
                try:
                    files[publication.key][name] = {"text": export(name, subject)}
                except ExportError as error:
                    files[publication.key][name] = {
                        "reason": str(error).removeprefix(f"format {name}: ")
                    }
        return files


def write_site(published: Path, out: Path, *, are_verified: bool = False) -> list[LeftOut]:
    """Write the site of all publications to `out`; equal publications give equal bytes.

    Where `out` is another folder than `published`, the publications are put beside the pages, so
    that `out` can be hosted as it is: their records and what was derived from them as copies, their
    reports drawn by the present code. A published report is HTML, and whoever published it may have
    written any script into it, with a manifest that says so. Returns the publications that are left
    out, because `verify --quick` finds a problem; the first page names them. are_verified: it was
    asked before, and found none.

    Raises:
        SiteError: `out` holds something else than a site.
        PathError, ConfigError, ClaimError: a folder or a file of the configuration is bad.
        OSError: a file cannot be written.
    """
    is_elsewhere = out.resolve() != published.resolve()
    if is_elsewhere and out.is_dir() and any(out.iterdir()) and not (out / _INDEX).is_file():
        raise SiteError(
            f"{out}: holds something else than a site (it has no {_INDEX}); give an empty folder "
            "or a new one"
        )
    specs = load_devices(paths.DEVICES)
    publications, left_out = read_publications(published, specs, are_verified=are_verified)
    claims = load_claims(paths.CLAIMS)
    site = _Site(publications=publications, left_out=left_out, specs=specs, claims=claims)
    if is_elsewhere:
        parallel_map(lambda one: _host(one, out / one.key, site), publications)
    files = dict(_files(site, out))
    for folder in _OWN:
        for stale in (out / folder).rglob("*"):
            if stale.is_file() and stale.relative_to(out).as_posix() not in files:
                stale.unlink()
    for name, content in files.items():
        write_bytes(out / name, content)
    return left_out


def read_publications(
    published: Path, specs: Mapping[str, DeviceSpec], *, are_verified: bool = False
) -> tuple[list[Analysis], list[LeftOut]]:
    """(publications that hold, those that are left out).

    GPUs come first, and of each device the newest environment. A publication holds if
    `verify --quick` finds no problem; one from before manifests is shown too. are_verified: all are
    known to hold.

    Raises:
        PathError: a folder has a name that no run may have.
    """
    folders = [one.folder for one in run_folders(published)]
    outcomes = [] if are_verified else parallel_map(partial(verify, quick=True), folders)
    bad = {outcome.folder: outcome.problems for outcome in outcomes if outcome.problems}
    left_out = []
    for folder, problems in bad.items():
        # the first line says what is wrong; the folder of this machine is nobody's business
        lines = [problem.partition("\n")[0].replace(f"{folder}/", "") for problem in problems]
        left_out.append(LeftOut(key=RunFolder.at(folder).name, problems=lines))
    runs = in_page_order(load_run(folder) for folder in folders if folder not in bad)
    return [analyse(run, specs.get(run.environment.device), peers=runs) for run in runs], left_out


def _host(publication: Analysis, target: Path, site: _Site) -> None:
    """Write a publication to `target`, with a report of the present code and a manifest of it all.

    The commit of the manifest stays the one that derived the calibration and the predictions.
    """
    folder = publication.run.folder
    manifest = read_manifest(folder)
    shutil.rmtree(target, ignore_errors=True)
    for name in files_without_report(folder):
        write_bytes(target / name, (folder / name).read_bytes())
    write_report([(target, target)], target / "report.html", paths.DEVICES, site.claims)
    if manifest:
        write_manifest(target, manifest["commit"])


def _files(site: _Site, out: Path) -> Iterator[tuple[str, bytes]]:
    """(path, content) of every file of the site; its publications lie in `out`."""
    for page in PAGES:
        yield f"{page}.html", _page(site, page)
    for device, name in site.device_names.items():
        yield devices.device_address(device), _device_page(site, device, name)
    for name, value in _data(site):
        # Pages opened from file:// may load scripts, and no other files.
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
        yield f"assets/data/{name}.js", f"roofcal.hold({json.dumps(name)},{text})\n".encode()
    for path in sorted((*(FOLDER / "site").glob("*.js"), FOLDER / "site" / "site.css")):
        yield f"assets/{path.name}", path.read_bytes()
    for name in (
        "style.css",
        "charts.css",
        "unpack.js",
        "tables.js",
        "charts.js",
        "product_model.js",
    ):
        yield f"assets/{name}", (FOLDER / name).read_bytes()
    rows = [publication_row(RunFolder.at(out / p.key)) for p in site.publications]
    document = {"schema_version": 1, "publications": sorted(rows, key=lambda row: row["path"])}
    yield _INDEX, (json.dumps(document, indent=1) + "\n").encode()


def publication_row(run: RunFolder) -> dict[str, Any]:
    """What index.json says of a publication.

    Raises RecordsError, ManifestError for a damaged one.
    """
    environment = read_single_record(run.environment_file, Environment)
    file, manifest = run.calibration_file, read_manifest(run.folder)
    calibration = read_single_record(file, Calibration) if file.is_file() else None
    named = ("device", "device_name", "environment_id", "driver", "torch", "triton")
    return {name: getattr(environment, name) for name in named} | {
        "path": run.name,
        "ops": run.planned_ops(),
        "probe_points": calibration.probe_points if calibration else None,
        "commit": manifest["commit"] if manifest else None,
        "files": len(manifest["files"]) if manifest else None,
        "manifest": f"{run.name}/{NAME}" if manifest else None,
    }


def _page(site: _Site, page: str) -> bytes:
    own: dict[str, Any] = {}
    if page == "index":
        unmeasured = {name: s for name, s in site.specs.items() if not site.of_device(name)}
        rows = [devices.measured_row(publication) for publication in site.publications]
        columns, caption = devices.MEASURED_COLUMNS, "Measured devices"
        own["measured"] = devices.site_table(rows, columns, "measured", caption)
        own["unmeasured"] = devices.datasheet_grid(unmeasured)
    if page == "claims":
        own["ledgers"] = list(devices.judged_ledgers(site.publications, site.claims))
    names = {"pages": PAGES, "page": page, "root": "", "left_out": site.left_out}
    text = render(f"site/{page}.html.j2", **names, publications=site.publications, **own)
    return f"{text}\n".encode()


def _device_page(site: _Site, device: str, name: str) -> bytes:
    own, spec = site.of_device(device), site.specs.get(device)
    text = render(
        "site/device.html.j2",
        pages=PAGES,
        page="device",
        root="../",
        device=device,
        name=name,
        spec=spec,
        publications=own,
        rates=devices.rates_grid(own[0]) if own else None,
        history=devices.history_grid(own),
        sources=devices.source_grid(spec) if spec else None,
        side=devices.side_of,
        exports=site.exports,
        cards_sentence=cards_sentence(own[0].cards) if own else "",
        holds_sentence=devices.interval_words(own[0])[1] if own else "",
    )
    return f"{text}\n".encode()


def _data(site: _Site) -> Iterator[tuple[str, Any]]:
    """(name, value) of every table that scripts read, loaded by the pages that need it."""
    yield "index", devices.site_index(site.publications, site.specs)
    # Before Vega is bundled, whose threads processes that fork must not inherit.
    models = load_models(paths.MODELS)
    yield "language_models", language_model_rows(site.publications, site.specs, models)
    vega, charts = site_charts()
    yield "vega", vega
    yield "charts", charts
    yield "modelled", modelled_points(site.publications, site.specs)
    for publication in site.publications:
        yield f"points/{publication.key}", measured_points(publication)
        box = ShapeBox(publication).data(publication.key)
        yield f"shape_box/{publication.key}", packed_json(box)
        exports = site.exports[publication.key].items()
        files = {name: file["text"] for name, file in exports if "text" in file}
        yield f"exports/{publication.key}", packed_json(files)


def site_charts() -> tuple[str, str]:
    """(Vega, the charts `roofline`, `history` and `serving` without rows), both packed.

    roofline: points and roofs of two sides; colours tell recipes apart, markers and dashes the
    sides. history: settled rates of the environments of one device, the oldest first. serving: a
    language model, a line per card and recipe with a dot per batch, above the Pareto front of all.
    """
    roofline = Chart(
        x=Axis("intensity", "arithmetic intensity, FLOP per byte", "count"),
        y=Axis("rate", "FLOP/s"),
        layers=[Layer("line", table="roofs", detail="line"), Layer("dots")],
        tables={
            "points": pd.DataFrame(columns=["intensity", "rate", "recipe", "side"]),
            "roofs": pd.DataFrame(columns=["intensity", "rate", "recipe", "side"]),
        },
        panels=[Panel(height=420)],
        tips=(
            Tip("name", "side"),
            Tip("recipe", "recipe"),
            Tip("shape", "shape"),
            Tip("provider", "provider"),
            Tip("time", "time", "si", "s", low="low", high="high"),
            Tip("rate", "rate", "si", "FLOP/s"),
        ),
        legend=(LegendEntry("recipe", ""), LegendEntry("side", "")),
        columns=1,
    )
    history = Chart(
        x=Axis("environment", "", "rows"),
        y=Axis("rate", "settled FLOP/s", "linear"),
        layers=[
            Layer("line", detail="recipe"),
            Layer("interval", low="low", high="high"),
            Layer("dots"),
        ],
        tables={"points": pd.DataFrame(columns=["environment", "rate", "recipe"])},
        panels=[Panel(height=300)],
        tips=(
            Tip("recipe", "products"),
            Tip("environment", "environment"),
            Tip("rate", "settled", "si", "FLOP/s", low="low", high="high"),
            Tip("measured", "measured"),
        ),
        legend=(LegendEntry("recipe", ""),),
        columns=1,
    )
    serving = Chart(
        x=Axis("per_request", "tokens/s of one request", "plain"),
        y=Axis("per_gpu", "tokens/s per GPU", "log"),
        layers=[Layer("line", table="front", size=9), Layer("line", detail="line"), Layer("dots")],
        tables={
            "points": pd.DataFrame(columns=["per_request", "per_gpu", "recipe", "card"]),
            "front": pd.DataFrame(columns=["per_request", "per_gpu"]),
        },
        panels=[Panel(height=380)],
        tips=(
            Tip("card", "card"),
            Tip("recipe", "recipe"),
            Tip("gpus", "GPUs", "count"),
            Tip("batch", "batch", "count"),
            Tip("per_request", "one request", "si", "tokens/s"),
            Tip("per_gpu", "each GPU", "si", "tokens/s"),
        ),
        legend=(LegendEntry("recipe", ""), LegendEntry("card", "")),
        columns=1,
    )
    charts = {"roofline": roofline, "history": history, "serving": serving}
    return page_charts((name, name, "", chart) for name, chart in charts.items())
