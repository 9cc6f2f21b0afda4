"""One definition of the fastest product, for README, report, site and claims."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.core.statistics import summarise
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.comparisons import fastest_products
from roofcal.report.data.evidence import evidence_of_run, own_number
from roofcal.report.summary import device_line, headline_numbers
from tests.roofcal.claims.ledgers import entries
from tests.roofcal.report.synthetic import MadeUpRun, product, samples_around

STUDY, PROBE = (4096, 4096, 4096), (5120, 24064, 3584)


def seconds_at(rate: float, shape: tuple[int, int, int]) -> float:
    m, n, k = shape
    return 2 * m * n * k / rate


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A probe is the fastest; a calibrated rate, a sentinel and zeros are other numbers."""
    made_up = MadeUpRun()
    made_up.measure(product(*STUDY), seconds_at(650e12, STUDY))
    made_up.measure(product(*STUDY, repeat=1), seconds_at(800e12, STUDY))
    made_up.measure(product(*PROBE, op="probe_math"), seconds_at(700e12, PROBE))
    made_up.measure(product(*STUDY, "fp8_axiswise"), seconds_at(1300e12, STUDY))
    made_up.constant("gemm.cublaslt.bf16.ceiling_flops_per_s", 600e12, "flop/s")
    return made_up.write(tmp_path_factory.mktemp("fastest"))


@pytest.fixture
def analysed(run_folder: Path, h200: DeviceSpec) -> Analysis:
    return analyse(load_run(run_folder), h200)


def test_it_is_the_fastest_of_study_and_probes_with_its_interval(analysed: Analysis) -> None:
    fastest = fastest_products(analysed.frames)

    assert list(fastest) == ["fp8_axiswise", "bf16"]
    rate = fastest["bf16"].rate
    times = summarise(samples_around(seconds_at(700e12, PROBE)))
    work = 700e12 * seconds_at(700e12, PROBE)
    ends = (work / times.ci95_high, work / times.ci95_low)
    assert (rate.value, rate.ci95_low, rate.ci95_high) == pytest.approx((700e12, *ends))
    assert fastest["bf16"].shape.replace("\N{MULTIPLICATION SIGN}", "x") == "5,120 x 24,064 x 3,584"


def test_report_and_claims_say_the_same_number(
    analysed: Analysis, run_folder: Path, h200: DeviceSpec, tmp_path: Path
) -> None:
    rate = fastest_products(analysed.frames)["bf16"].rate
    test = {"op": "gemm", "points": {"recipe": "bf16"}, "pick": "fastest", "quantity": "tflops"}
    (entry,) = entries(tmp_path, {"test": {"value": 1} | test})
    assert entry.test is not None
    evidence = evidence_of_run(load_run(run_folder), h200)

    claimed = own_number(entry, entry.test, evidence, entry.points, {})

    assert device_line(analysed)["bf16"] == rate.value
    assert headline_numbers(analysed)[0].value.startswith("700")
    ends = (rate.value, rate.ci95_low, rate.ci95_high)
    assert (claimed.value, claimed.low, claimed.high) == pytest.approx([e / 1e12 for e in ends])


def test_the_fastest_first_turn_has_a_shape_of_its_own(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    for shape, burst in ((STUDY, 750e12), (PROBE, 800e12)):
        made_up.measure(
            product(*shape), seconds_at(700e12, shape), burst_s=seconds_at(burst, shape)
        )
    fastest = analyse(load_run(made_up.write(tmp_path)), None).fastest["bf16"]

    assert fastest.burst == pytest.approx(800e12)
    assert fastest.burst_shape.replace("\N{MULTIPLICATION SIGN}", "x") == "5,120 x 24,064 x 3,584"


def test_a_run_without_products_has_none() -> None:
    assert fastest_products({"cast": pd.DataFrame()}) == {}
