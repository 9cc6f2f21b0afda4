"""The whole calibration as plain data."""

from dataclasses import asdict, replace

from roofcal.export.document import document
from tests.roofcal.export.subjects import h200


def test_nothing_is_dropped() -> None:
    found, calibration = document(h200(), "json"), h200().calibration
    constants = {
        row["name"]: {k: v for k, v in row.items() if k not in ("name", "choice")}
        for row in found["constants"]
    }
    assert constants == {name: asdict(c) for name, c in calibration.constants.items()}
    assert found["probe_errors"] == calibration.probe_errors
    assert (found["device"], found["seed"]) == (calibration.device, calibration.seed)
    assert found["probe_points"] == calibration.probe_points
    assert found["environment"]["nccl"] == "2.28.9"
    assert found["made_by"] == h200().command("json")


def test_without_a_record_the_environment_is_null() -> None:
    assert document(replace(h200(), environment=None), "json")["environment"] is None
