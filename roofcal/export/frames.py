"""A run as pandas frames, from its tables and predictions: what notebooks read."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd

from roofcal.ask.devices import datasheet
from roofcal.core.paths import RunFolder
from roofcal.core.records import TIMELESS
from roofcal.export.formats import export
from roofcal.export.subject import Subject
from roofcal.models.calibrations import read_calibration
from roofcal.models.errors import PredictError
from roofcal.ops import BY_NAME
from roofcal.points.tables import table_files


@dataclass(frozen=True)
class RunFrames:
    """One device in one environment as pandas frames; each is read when it is first asked for.

    Attributes:
        device, environment: the ids.
        run: the folder that the frames come from.
    """

    device: str
    environment: str
    run: RunFolder = field(repr=False)

    @cached_property
    def _files(self) -> dict[str, Path]:
        """Name of a table, or an op -> its file."""
        return table_files(self.run)

    @property
    def tables(self) -> list[str]:
        """Names of all tables; docs/data.md says what their columns are."""
        return list(self._files)

    def table(self, name: str) -> pd.DataFrame:
        """The table of a name, or the measured points of an op.

        Raises:
            PredictError: there is no such table; the message lists those there are.
        """
        if name not in self._files:
            there_are = ", ".join(self.tables) or "none: `make report` writes them"
            raise PredictError(f"{self.run.folder}: has no table '{name}'; there are {there_are}")
        frame = pd.read_csv(self._files[name], low_memory=False)
        own = {"device": self.device, "environment_id": self.environment}
        for column in own.keys() & set(frame):  # the tables of a report may hold several runs
            frame = frame[frame[column] == own[column]]
        return frame.reset_index(drop=True)

    @cached_property
    def measurements(self) -> pd.DataFrame:
        """One row per point of all ops, probes included: status, median, interval, clock, error."""
        ops = [self.table(name) for name in self.tables if name in BY_NAME]
        return pd.concat(ops, ignore_index=True) if ops else self.table("gemm")

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """One row per study point and model of time, beside what was measured there.

        Points that were tried and have no time have no row.
        relative_error is predicted over measured, less 1; NaN where nothing was measured.
        """
        of_model = ["point_id", "model", "total_s", "low_s", "high_s", "bound_by"]
        files = [self.run.predictions_file(op) for op in self.run.predicted_ops()]
        parts = [pd.read_json(file, lines=True)[of_model] for file in files]
        predicted = pd.concat(parts, ignore_index=True).set_axis(
            [name.replace("total_s", "predicted_s") for name in of_model], axis="columns"
        )
        axes = dict.fromkeys(axis for op in self.run.predicted_ops() for axis in BY_NAME[op].axes)
        point = ["point_id", "op", "provider", "recipe", *axes, "world_size", "status", "median_s"]
        frame = predicted.merge(self.measurements[point], on="point_id", how="left")
        frame = frame[~frame["status"].isin(TIMELESS)].reset_index(drop=True)
        return frame.assign(relative_error=frame["predicted_s"] / frame["median_s"] - 1)

    @cached_property
    def constants(self) -> pd.DataFrame:
        """The calibrated constants: value, 95 % interval, unit, the datasheet's figure."""
        return self.table("constants")

    @cached_property
    def errors(self) -> pd.DataFrame:
        """Errors of every model of time on points that no fit has seen, by op and regime."""
        return self.table("error_by_regime")

    def export(self, form: str) -> str:
        """The constants as a file of another tool: torchao, aiconfigurator, json, latex, ...

        Raises:
            ExportError: there is no such format, or it needs what was not calibrated.
        """
        calibration = read_calibration(self.run.calibration_file, self.device)
        return export(form, Subject.of_run(self.run, calibration, datasheet(self.device)))
