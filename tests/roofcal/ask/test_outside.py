"""A model held against products of somebody else: our own records stand in for a stranger's."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from roofcal.ask.outside import OutsideEvidence, burst_factors, errors_by_regime, hold_against
from roofcal.ask.points import predict_point
from roofcal.cli.main import main
from roofcal.core.csv_files import CsvError
from roofcal.core.paths import RunFolder
from roofcal.core.records import PlanPoint
from roofcal.models.errors import PredictError
from roofcal.models.registry import model_named
from roofcal.ops.time_models import Sources
from roofcal.points.tables import table_files
from tests.roofcal.ask.published_run import PUBLISHED, published_sources

CALIBRATED = model_named("calibrated")
HEADER = "recipe,m,n,k,seconds"


def published_rows(column: str) -> Iterator[str]:
    """Products of cuBLASLt as a stranger would publish them, with the time of a column."""
    path = table_files(PUBLISHED)["gemm"]
    for row in csv.DictReader(StringIO(path.read_text(encoding="utf-8"))):
        steady = (row["status"], row["method"], row["cache"], row["distribution"])
        if steady == ("ok", "graph", "cold", "normal") and row["provider"] == "cublaslt":
            yield ",".join(row[name] for name in ("recipe", "m", "n", "k", column))


def held(folder: Path, *rows: str, header: str = HEADER, clock: str = "settled") -> OutsideEvidence:
    path = folder / "outside.csv"
    path.write_text("\n".join((header, *rows)) + "\n")
    return hold_against(path, CALIBRATED, published_sources(), PUBLISHED, clock=clock)  # type: ignore[arg-type]


def overall(evidence: OutsideEvidence) -> float:
    mape: float = errors_by_regime(evidence.products)[-1]["mape"]
    return mape


def test_a_settled_table_has_the_errors_of_the_report(tmp_path: Path) -> None:
    evidence = held(tmp_path, *published_rows("median_s"))
    assert len(evidence.products) > 118
    assert overall(evidence) < 0.07
    assert not evidence.unanswered


def test_a_burst_table_is_held_against_bursts(tmp_path: Path) -> None:
    rows = list(published_rows("burst_median_s"))
    as_settled, as_burst = held(tmp_path, *rows), held(tmp_path, *rows, clock="burst")
    assert overall(as_burst) < 0.8 * overall(as_settled)
    factors = burst_factors(PUBLISHED)
    assert 0.7 < factors["bf16", "large"] < factors["bf16", "decode"] <= 1.01
    assert ("bf16", "") in factors


def test_burst_factors_are_of_the_library_with_cold_caches_and_normal_inputs(
    tmp_path: Path,
) -> None:
    steady = {
        "environment_id": "here", "method": "graph", "status": "ok", "cache": "cold",
        "distribution": "normal", "world_size": 1, "provider": "cublaslt", "recipe": "bf16",
        "m": 4096, "n": 4096, "k": 4096, "median_s": 1.0, "ci95_low_s": 0.99,
        "ci95_high_s": 1.01, "burst_median_s": 0.9, "repeat": 0,
    }  # fmt: skip
    others = (
        {"environment_id": "elsewhere"}, {"cache": "hot"}, {"distribution": "zeros"},
        {"world_size": 2}, {"provider": "triton"}, {"method": "eager"},
    )  # fmt: skip
    rows = [steady | {"k": 4096 - 128 * more} for more in range(5)]
    rows += [steady | {"recipe": "fp8_tensorwise", "k": 4096 - 128 * more} for more in range(4)]
    rows += [steady | {"burst_median_s": 0.5} | other for other in others] * 9
    rows += [steady | {"burst_median_s": 0.5, "repeat": 1 + repeat} for repeat in range(9)]
    run = RunFolder.at(tmp_path / "nvidia-h200/here")
    path = run.folder / "tables/nvidia-h200_gemm.csv"
    path.parent.mkdir(parents=True)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, steady)
        table.writeheader()
        table.writerows(rows)
    assert burst_factors(run) == {("bf16", "mid"): 0.9, ("bf16", ""): 0.9}

    outside = tmp_path / "outside.csv"
    outside.write_text(f"{HEADER}\nbf16,64,64,64,1e-6\nfp8_tensorwise,64,64,64,1e-6\n")
    evidence = hold_against(outside, CALIBRATED, published_sources(), run, clock="burst")
    assert [product["recipe"] for product in evidence.products] == ["bf16"]
    reason = "fewer than 5 measured bursts of fp8_tensorwise by the library"
    assert evidence.unanswered == {reason: 1}


@pytest.mark.parametrize("size", [4096, 131072])
def test_intervals_are_those_of_predict(tmp_path: Path, size: int) -> None:
    (product,) = held(tmp_path, f"bf16,{size},{size},{size},1e-4").products
    shape = {"m": size, "n": size, "k": size}
    point = PlanPoint(op="gemm", provider="cublaslt", recipe="bf16", shape=shape, device="")
    answer = predict_point(point, "calibrated", published_sources(), PUBLISHED)
    assert product["extrapolated"] == bool(answer.extrapolated_doublings) == (size > 100_000)
    expected = (answer.low_s, answer.high_s)
    ends = product["predicted_low_s"], product["predicted_high_s"]
    assert ends == pytest.approx(expected)


def test_without_probes_nobody_knows_what_is_extrapolated_and_without_records_no_burst(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}\nbf16,1,64,64,1e-6\n")
    calibration = published_sources().calibration
    assert calibration is not None
    without = Sources(calibration=replace(calibration, probe_spans={}))
    evidence = hold_against(path, CALIBRATED, without, None)
    assert [product["extrapolated"] for product in evidence.products] == [None]
    assert str(evidence.products_csv()).endswith(",")
    with pytest.raises(PredictError, match="give a settled table"):
        hold_against(path, CALIBRATED, published_sources(), None, clock="burst")


def test_errors_by_hand() -> None:
    product = {"recipe": "bf16", "casts_by": "none", "seconds": 1.0, "regime": "large",
               "predicted_low_s": 0.5}  # fmt: skip
    group, all_regimes, everything = errors_by_regime(
        [
            product | {"error": 0.1, "predicted_high_s": 1.2, "extrapolated": False},
            product | {"error": -0.2, "predicted_high_s": 0.9, "extrapolated": True},
        ]
    )
    names = (group["regime"], all_regimes["regime"], everything["recipe"])
    assert names == ("large", "all", "all")
    assert group["mape"] == pytest.approx(0.15)
    assert group["median_error"] == pytest.approx(-0.05)
    assert (group["inside"], group["extrapolated"], group["products"]) == (0.5, 1, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recipe,m,n,k,latency\nbf16,1,1,1,1\n", "column seconds is missing"),
        (f"{HEADER}\nbf16,1,1,1,-1\n", "seconds='-1' is no time above 0"),
        (f"{HEADER}\nbf16,1,1,1,soon\n", "seconds='soon' is no time above 0"),
        (f"{HEADER}\nbf61,1,1,1,1\n", "did you mean 'bf16'"),
        (f"{HEADER},casts_by\nbf16,1,1,1,1,tritn\n", "casts_by 'tritn'; did you mean 'triton'"),
    ],
)
def test_a_bad_table_is_one_message(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(CsvError, match=message):
        hold_against(path, CALIBRATED, published_sources(), None)


def test_what_the_library_refuses_is_counted_with_the_reason(tmp_path: Path) -> None:
    evidence = held(tmp_path, "fp8_axiswise,1,64,65,1e-6", "bf16,1,64,65,1e-6")
    assert evidence.unanswered == {
        "cublaslt takes fp8_axiswise with n in multiples of 16, k in multiples of 16": 1
    }
    assert "no answer for 1: cublaslt takes" in str(evidence)


def test_the_first_line_says_how_wrong_the_model_is_and_other_names_of_recipes_are_known(
    tmp_path: Path,
) -> None:
    evidence = held(tmp_path, "rowwise,4096,4096,4096,1.12e-4", "bf16,16,4096,4096,2")
    assert [row["recipe"] for row in evidence.products] == ["fp8_axiswise", "bf16"]
    assert str(evidence).splitlines()[0] == (
        f"Predictions are {overall(evidence):.1%} off on average, over 2 products; 50% of these "
        "lie in their 95 % intervals."
    )


@pytest.mark.usefixtures("published_alone")
def test_the_command_prints_the_page_and_writes_the_products(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "t.csv", tmp_path / "o.csv"
    path.write_text(f"{HEADER}\nbf16,4096,4096,4096,2e-4\n")
    assert main(["judge", str(path), "--device", "nvidia-h200", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "products by the library, nvidia-h200, driver" in " ".join(said.split())
    (row,) = csv.DictReader(out.open())
    assert float(row["error"]) == pytest.approx(float(row["predicted_s"]) / 2e-4 - 1, rel=1e-3)
    assert row["regime"] == "mid"
    assert main(["judge", str(path), "--device", "nvidia-b200", "--by", "datasheet"]) == 0
