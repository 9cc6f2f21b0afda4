"""A recipe of casts is one line of vocabulary and what its op's folder says of it.

The trial adds fp8_blockwise_1x64 to a copy of the checkout: a scale per 64 neighbours of a row. The
line goes to roofcal/core/recipes.py, the cast by torch to the bench of op cast; the sweeps name it.
"""

from pathlib import Path

import pytest

from roofcal.core.jsonl import read_records
from roofcal.core.records import Calibration, Measurement, Prediction
from tests.trial.small_checkout import changed_files, checkout_with_sweeps, files_of
from tests.workflow.checkout import Checkout

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="measures a CPU; this has a GPU"),
]

RECIPE = "fp8_blockwise_1x64"
# file -> a line in it, and what the trial writes behind that line
EDITS = {
    "roofcal/core/recipes.py": (
        '    "fp8_blockwise_1x128": (_STRIP,),\n',
        f'    "{RECIPE}": (Scale(dtype="fp32", rows=1, cols=64),),\n',
    ),
    "roofcal/ops/cast/bench.py": (
        '    "fp8_blockwise_1x128": partial(in_strips, size=BLOCK),\n',
        f'    "{RECIPE}": partial(in_strips, size=64),\n',
    ),
    "config/sweeps/cast.yaml": (
        "  cpu: {fp8_tensorwise: [torch_eager]",
        f", {RECIPE}: [torch_eager]",
    ),
    "config/sweeps/probe_cast.yaml": (
        "  cpu: {fp8_rowwise_dim0: [torch_eager]",
        f", {RECIPE}: [torch_eager]",
    ),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a finished study that has casts in the new recipe."""
    checkout = checkout_with_sweeps(
        tmp_path_factory.mktemp("trial") / "checkout", "cast", "probe_cast"
    )
    before = files_of(checkout)
    for path, (line, addition) in EDITS.items():
        checkout.replace(path, line, line + addition)
    assert changed_files(before, checkout) == set(EDITS)
    checkout.run()
    check_that_the_report_shows_it(checkout)
    (folder,) = checkout.run_folders()
    return folder


def check_that_the_report_shows_it(checkout: Checkout) -> None:
    assert RECIPE in checkout.text("results/report/report.html")


def test_it_is_measured_and_right(run: Path) -> None:
    rows = read_records(run / "measurements/cast.jsonl", Measurement)
    assert [row.status for row in rows] == ["ok", "ok"], [row.reason for row in rows]


def test_it_is_fitted_and_predicted(run: Path) -> None:
    (calibration,) = read_records(run / "calibration.jsonl", Calibration)
    assert f"cast.torch_eager.{RECIPE}.bytes_per_s" in calibration.constants
    predictions = read_records(run / "predictions/cast.jsonl", Prediction)
    # Tensorwise casts have no probes in the small study.
    assert [prediction.model for prediction in predictions] == ["calibrated"]
