# The validated study, its runs, and the few functions that the rules' inputs are made of.
import json
import os
import re
import sys
from pathlib import Path

from roofcal.core.paths import CONFIG, RESULTS
from roofcal.report.figure_captions import all_captions, figure_title
from roofcal.study.config import load_study
from roofcal.study.runs import (
    interrupted_runs,
    other_calibrations,
    study_runs,
    with_run_before,
)
from roofcal.study.staleness import measure_sources, plan_sources, stage_sources

# `python` in a rule is the one Snakemake runs on, whether or not its environment is activated.
HERE = str(Path(sys.executable).parent)
os.environ.update(PATH=os.pathsep.join([HERE, *os.get_exec_path()]))

# All that can fail is done here: Snakemake takes an error in an input function to mean that the
# file has no rule, and would call a stale one up to date.
try:
    STUDY = load_study(CONFIG, config)
    RUNS = {str(run.derived): run for run in study_runs(STUDY)}
    PLANNED_BY = {op: plan_sources(op) for op in STUDY.sweep_files}
    MEASURED_BY = {op: measure_sources(op) for op in STUDY.sweep_files}
    DONE_BY = {
        stage: stage_sources(stage)
        for stage in ("calibrate", "predict", "compare", "report")
    }
except (ValueError, OSError) as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(2)

for note in interrupted_runs(RESULTS, [run.folder for run in RUNS.values()]):
    print(f"note: {note}", file=sys.stderr)


def any_of(names):
    """A pattern that matches these names alone, and nothing where there are none."""
    return "|".join(re.escape(name) for name in sorted(set(names))) or "(?!)"


def run_of(wildcards):
    """The run whose derived files are at {root}/{device}/{environment}."""
    return RUNS[f"{wildcards.root}/{wildcards.device}/{wildcards.environment}"]


wildcard_constraints:
    root="results|results/replay",
    device="[^/]+",
    environment=any_of(run.environment_id for run in RUNS.values()),
    op=any_of(STUDY.sweep_files),


# Plans and measurements are made for current runs only; those of others are never touched.
CURRENT = any_of(run.environment_id for run in RUNS.values() if run.backend)
