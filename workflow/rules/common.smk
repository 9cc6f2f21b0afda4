# The validated study, its runs, and the few functions that the rules' inputs are made of.
import json
import os
import re
import sys
from pathlib import Path

from roofcal.core.names import printable
from roofcal.core.paths import CHECKOUT, CONFIG
from roofcal.report.data.op_pages import all_captions, figure_title
from roofcal.study.cluster import fleet_nodes
from roofcal.study.config import load_study
from roofcal.study.runs import other_calibrations, study_runs, with_run_before
from roofcal.study.staleness import source_files, source_lists
from roofcal.study.startup import print_job_lines, study_notes

# `python` in a rule is the one Snakemake runs on, whether or not its environment is activated, and
# finds roofcal from any folder.
HERE = str(Path(sys.executable).parent)
MODULES = filter(None, [str(CHECKOUT), os.getenv("PYTHONPATH")])
os.environ.update(
    PATH=os.pathsep.join([HERE, *os.get_exec_path()]),
    PYTHONPATH=os.pathsep.join(MODULES),
)

# All that can fail is done here: Snakemake takes an error in an input function to mean that the
# file has no rule, and would call a stale one up to date.
try:
    STUDY = load_study(CONFIG, config)
    FOUND, LEFT_OUT = study_runs(STUDY)
    RUNS = {str(run.derived): run for run in FOUND}
    # A job of a cluster parses this again, twice: it takes the files of whoever started it.
    sources_of = source_lists if workflow.is_main_process else source_files
    SOURCES = sources_of(STUDY.sweep_files)
    FLEET_NODES = fleet_nodes(STUDY.file.fleet_nodes)
    if workflow.is_main_process:
        for note in study_notes(
            STUDY, FOUND, LEFT_OUT, is_dry_run=workflow.output_settings.dryrun
        ):
            print(f"note: {printable(note)}", file=sys.stderr)
except (ValueError, OSError) as error:
    print(f"error: {printable(str(error))}", file=sys.stderr)
    sys.exit(2)

# `snakemake -p` prints all files, reasons and commands.
print_job_lines(logger, details=workflow.output_settings.printshellcmds)


def any_of(names):
    """A pattern that matches these names alone, and nothing where there are none."""
    return "|".join(re.escape(name) for name in sorted(set(names))) or "(?!)"


def run_of(wildcards):
    """The run whose derived files are at {root}/{device}/{environment}; root is results if none."""
    root = wildcards.get("root", "results")
    return RUNS[f"{root}/{wildcards.device}/{wildcards.environment}"]


wildcard_constraints:
    root="results|results/replay",
    device="[^/]+",
    environment=any_of(run.environment_id for run in RUNS.values()),
    op=any_of(STUDY.sweep_files),


# Plans and measurements are made for current runs only; those of others are never touched.
CURRENT_RUNS = [run for run in RUNS.values() if run.backend]
CURRENT = any_of(run.environment_id for run in CURRENT_RUNS)
# A size of the study may have no point of an op: then no rule makes a file of it.
MEASURED = {op for run in CURRENT_RUNS for op in run.ops}
# Ops that a job per world size measures, on a cluster.
SHARED_OUT = {
    op for run in CURRENT_RUNS for op in run.ops if len(run.world_sizes_by_job(op)) > 1
}
