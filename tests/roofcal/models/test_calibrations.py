"""Which calibration answers: one measured here, else a published one; else what there is."""

from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.core.jsonl import write_records
from roofcal.core.records import Ceiling
from roofcal.models.calibrations import find_calibration
from roofcal.models.errors import PredictError
from tests.roofcal.made_up_records import exactly
from tests.roofcal.models.runs import calibration


def put(root: Path, device: str, environment: str) -> Path:
    folder = root / device / environment
    write_records(folder / "calibration.jsonl", [calibration(device, environment)])
    return folder


def find(tmp_path: Path, device: str, environment: str | None = None) -> Path:
    return find_calibration(device, environment, tmp_path / "published", tmp_path / "results")[0]


def test_one_measured_here_goes_first_unless_an_environment_is_asked_for(tmp_path: Path) -> None:
    published = put(tmp_path / "published", "made-up", "e1")
    assert find(tmp_path, "made-up") == published
    put(tmp_path / "published", "made-up", "e2")
    measured = put(tmp_path / "results", "made-up", "e0")
    assert find(tmp_path, "made-up") == measured
    assert find(tmp_path, "made-up", "e1") == published


def test_versions_are_compared_as_numbers(tmp_path: Path) -> None:
    put(tmp_path / "published", "made-up", "driver580.9-torch2.9.1-aaaa")
    folder = put(tmp_path / "published", "made-up", "driver580.9-torch2.11.0-bbbb")
    put(tmp_path / "published", "made-up", "driver99.1-torch2.12.0-cccc")
    assert find(tmp_path, "made-up") == folder


def test_the_calibration_of_another_device_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "published" / "other" / "e1"
    write_records(folder / "calibration.jsonl", [calibration("made-up", "e1")])
    with pytest.raises(PredictError, match="was fitted on made-up, not on other"):
        find(tmp_path, "other")


def test_what_is_not_there_is_answered_by_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(PredictError, match="run `make study` first"):
        find(tmp_path, "made-up")
    folder = put(tmp_path / "published", "nvidia-h200", "e1")
    with pytest.raises(PredictError, match="did you mean 'nvidia-h200'"):
        find(tmp_path, "nvidia-h20")
    with pytest.raises(PredictError, match="no environment 'e9'; there are: e1"):
        find(tmp_path, "nvidia-h200", "e9")
    write_records(folder / "calibration.jsonl", [])
    with pytest.raises(PredictError, match=r"calibration\.jsonl: holds no calibration"):
        find(tmp_path, "nvidia-h200")


def test_a_described_device_that_nobody_measured_is_answered_by_cards_of_its_architecture(
    tmp_path: Path,
) -> None:
    roots = tmp_path / "published", tmp_path / "results"
    put(roots[0], "nvidia-h200", "e1")
    place, nobody = find_calibration("nvidia-h100-nvl", None, *roots)
    assert place == Path("config/priors/sm_90.jsonl")
    assert nobody.device == "nvidia-h100-nvl"
    again = find_calibration("nvidia-h100-nvl", nobody.environment_id, *roots)
    assert again == (place, nobody)
    with pytest.raises(PredictError, match="no calibration of device 'nvidia-h100-nvl'"):
        find_calibration("nvidia-h100-nvl", "e1", *roots)
    measured = put(roots[1], "nvidia-h100-nvl", "e1")
    assert find(tmp_path, "nvidia-h100-nvl") == measured
    with pytest.raises(PredictError, match=r"has no environment 'prior-of-\S+'; there are: e1"):
        find(tmp_path, "nvidia-h100-nvl", nobody.environment_id)


def test_a_device_whose_architecture_no_card_has_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "published", "nvidia-h200", "e1")
    with pytest.raises(PredictError, match=r"no card of its architecture was published\. There"):
        find(tmp_path, "nvidia-a100-sxm-80gb")


@pytest.mark.parametrize(
    ("equations", "problem"),
    [
        ({}, "an older roofcal fitted it, with equation without a number of gemm"),
        ({"gemm": 1, "cast": 1}, "an older roofcal fitted it, with equation 1 of gemm"),
        ({"gemm": 99, "cast": 99}, "a newer roofcal fitted it, with equation 99 of gemm"),
    ],
)
def test_a_calibration_of_another_equation_is_refused_with_the_way_out(
    tmp_path: Path, equations: dict[str, int], problem: str
) -> None:
    path = tmp_path / "published/made-up/e1/calibration.jsonl"
    other = replace(calibration("made-up", "e1"), equations=equations)
    write_records(path, [other])
    wanted = rf"{problem}, and this roofcal has equation \d"
    with pytest.raises(PredictError, match=wanted) as caught:
        find(tmp_path, "made-up")
    assert f"roofcal calibrate --run {path.parent} --out {path}" in str(caught.value)
    (path.parent / "manifest.json").write_text("{}")
    with pytest.raises(PredictError, match=rf"roofcal publish --again {path.parent}"):
        find(tmp_path, "made-up")


WHOLE = calibration("made-up", "e1")
PRODUCT = "gemm.cublaslt.bf16."
CAST, NARROW = "cast.torch_eager.fp8_rowwise_dim0", "mixed_gemm.triton.int4_groupwise_g64"


def without(*names: str) -> dict[str, Ceiling]:
    return {name: value for name, value in WHOLE.constants.items() if name not in names}


@pytest.mark.parametrize(
    ("constants", "says"),
    [
        (without(f"{CAST}.bytes_per_s"), f"{CAST} cannot .* bytes_per_s is missing"),
        (
            without() | {f"{NARROW}.fixed_s": exactly(1.0, "s")},
            f"{NARROW} cannot .* narrow_family is missing",
        ),
        (without("compute_units"), "gemm.cublaslt.bf16 cannot .* compute_units is missing"),
        (without(f"{PRODUCT}launch_s"), "gemm.cublaslt.bf16 cannot .* launch_s is missing"),
    ],
)
def test_a_calibration_without_what_its_equations_read_is_refused_with_the_way_out(
    tmp_path: Path, constants: dict[str, Ceiling], says: str
) -> None:
    path = tmp_path / "results/made-up/e1/calibration.jsonl"
    write_records(path, [replace(WHOLE, constants=constants)])
    with pytest.raises(PredictError, match=f"{says}.*calibrate --run {path.parent} --out "):
        find(tmp_path, "made-up")


def test_a_calibration_without_the_errors_of_its_probes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results/made-up/e1/calibration.jsonl"
    write_records(path, [replace(WHOLE, probe_errors={})])
    with pytest.raises(PredictError, match=r"calibration.jsonl: .* cannot be predicted"):
        find(tmp_path, "made-up")
