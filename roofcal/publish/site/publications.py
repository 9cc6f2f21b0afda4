"""The publications that a site shows, and those that it leaves out because they do not hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from roofcal.core.devices import DeviceSpec
from roofcal.core.paths import RunFolder, run_folders
from roofcal.core.records import Ceiling
from roofcal.core.visits.intervals import MEANINGS
from roofcal.export.formats import FORMATS, export
from roofcal.export.subject import ExportError, Subject
from roofcal.fitting.parallel import parallel_map
from roofcal.points.roofs import constants_of
from roofcal.points.run import load_run
from roofcal.publish.verify import verify
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.quality import times_by_hold
from roofcal.report.summary import device_line
from roofcal.report.write import in_page_order


@dataclass(frozen=True, kw_only=True)
class Publication:
    """One device in one environment, with the tables of its records."""

    analysis: Analysis

    @property
    def folder(self) -> RunFolder:
        """Its records, and what was derived from them."""
        return self.analysis.run.files

    @property
    def key(self) -> str:
        """<device>/<environment_id>, its folder among the publications."""
        return self.folder.name

    @property
    def device(self) -> str:
        """Device id."""
        return self.folder.device

    @property
    def device_name(self) -> str:
        """The name that the driver reports."""
        return self.analysis.run.environment.device_name

    @property
    def environment(self) -> str:
        """Short name of the environment."""
        return self.analysis.environment_name

    @property
    def date(self) -> str:
        """The day when it was measured, '' without a session."""
        return self.analysis.run.measured_utc[:10]

    @property
    def constants(self) -> Mapping[str, Ceiling]:
        """The calibrated constants."""
        return constants_of(self.analysis.run.calibration)

    @cached_property
    def holds(self) -> str:
        """How far the intervals of most of its times can be trusted, '' without a time."""
        counts = times_by_hold(self.analysis.frames)
        return counts.most_common(1)[0][0] if counts else ""

    @property
    def holds_sentence(self) -> str:
        """The same as a sentence, with how many times that are; '' without a time."""
        if not self.holds:
            return ""
        count, timed = times_by_hold(self.analysis.frames)[self.holds], self.analysis.timed
        return (
            f"{count:,} of its {timed:,} times have an interval that covers {MEANINGS[self.holds]}."
        )

    @cached_property
    def headline(self) -> dict[str, Any]:
        """The numbers that a reader looks for first."""
        return device_line(self.analysis)

    @cached_property
    def exports(self) -> dict[str, dict[str, str]]:
        """Format -> its text, or the reason why this calibration cannot be written in it."""
        run = self.analysis.run
        files: dict[str, dict[str, str]] = {}
        if run.calibration is None:
            return {}
        subject = Subject(
            calibration=run.calibration, spec=self.analysis.spec, environment=run.environment
        )
        for name in FORMATS:
            try:
                files[name] = {"text": export(name, subject)}
            except ExportError as error:
                files[name] = {"reason": str(error)}
        return files


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A folder that is not shown, and why."""

    key: str
    problems: Sequence[str]


def read_publications(
    published: Path, specs: Mapping[str, DeviceSpec], *, are_verified: bool = False
) -> tuple[list[Publication], list[LeftOut]]:
    """(publications that hold, those that are left out).

    GPUs come first, and of each device the newest environment. A publication holds if
    `verify --quick` finds no problem; one from before manifests is shown too. are_verified: all are
    known to hold.

    Raises:
        PathError: a folder has a name that no run may have.
    """
    found = [one.folder for one in run_folders(published)]
    outcomes = [] if are_verified else parallel_map(partial(verify, quick=True), found)
    bad = {outcome.folder: outcome.problems for outcome in outcomes if outcome.problems}
    left_out = []
    for folder, problems in bad.items():
        # the first line says what is wrong; the folder of this machine is nobody's business
        lines = [problem.partition("\n")[0].replace(f"{folder}/", "") for problem in problems]
        left_out.append(LeftOut(key=RunFolder.at(folder).name, problems=lines))
    runs = in_page_order(load_run(folder) for folder in found if folder not in bad)
    publications = [
        Publication(analysis=analyse(run, specs.get(run.environment.device), peers=runs))
        for run in runs
    ]
    return publications, left_out
