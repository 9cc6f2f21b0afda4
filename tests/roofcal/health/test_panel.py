"""The panel of config/health.yaml can be planned, is published, and is checked."""

import os
from pathlib import Path

import pytest

from roofcal.core.jsonl import read_plan, read_records
from roofcal.core.machine.nvml import Gpu
from roofcal.core.records import Environment, Measurement, Session
from roofcal.core.yaml_files import ConfigError
from roofcal.health import panel as panels
from roofcal.health.comparison import HealthError
from roofcal.health.panel import measure_card, measure_node, node_name, read_panel
from roofcal.measure import session
from roofcal.ops import point_problem
from roofcal.study.plan import plan_op
from tests.paths import ROOT
from tests.roofcal.ask.published_run import PUBLISHED
from tests.roofcal.measure.runs import TIMING, environment, scripted
from tests.roofcal.measure.test_session_devices import GPU, card

PANEL = ROOT / "config/health.yaml"
RUN = PUBLISHED  # of the H200: quick studies lack some points


PRODUCTS = {
    "gemm": {
        "op": "gemm",
        "seed": 0,
        "contenders": {"fp32": ["torch_cpu"]},
        "sweeps": {"works": {"cubes": [8, 16]}},
    }
}


def test_every_point_of_a_gpu_is_published() -> None:
    (gpu,) = read_records(RUN.environment_file, Environment)
    for op, op_slice in read_panel(PANEL, "cuda").items():
        published = {point.point_id for point in read_plan(RUN, op, point_problem)}
        assert {point.point_id for point in plan_op(op_slice, gpu)} <= published, op


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cpu: must list ops"),
        ("cpu: {gem: {}}", "unknown op 'gem'; did you mean 'gemm'"),
        ("cpu: {gemm: 3}", "cpu.gemm: must be a mapping"),
    ],
)
def test_a_bad_panel_is_named(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "health.yaml").write_text(text)
    with pytest.raises(ConfigError, match=says):
        read_panel(tmp_path / "health.yaml", "cpu")


def test_a_card_is_measured_into_a_folder_of_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, tmp_path)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    cpu = environment()
    for _ in range(2):  # the second replaces the first
        folder = measure_card(PRODUCTS, cpu, TIMING, tmp_path / "fleet")
    assert folder == tmp_path / "fleet" / cpu.device / cpu.environment_id / "n1/cpu"
    assert len(read_records(folder / "measurements/gemm.jsonl", Measurement)) == 2
    assert [path.name for path in folder.parent.iterdir()] == ["cpu"]
    with pytest.raises(HealthError, match=r"config/health\.yaml: gemm: .*sweeps"):
        measure_card({"gemm": {"op": "gemm", "seed": 0, "contenders": {}}}, cpu, TIMING, tmp_path)


def test_each_card_of_a_node_is_measured_into_a_folder_of_its_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, tmp_path)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    cards = [
        card(uuid="GPU-A", pci_address="0000:1b:00.0"),
        card(uuid="GPU-B", pci_address="0000:43:00.0"),
        card(uuid="GPU-C", pci_address=None),
    ]

    def visible() -> list[Gpu]:
        setting = os.environ.get("CUDA_VISIBLE_DEVICES", "GPU-A,GPU-B,GPU-C")
        return [one for one in cards if one.uuid in setting.split(",")]

    for module in (session, panels):
        monkeypatch.setattr(module, "visible_gpus", visible)
    folders = measure_node(PRODUCTS, environment(**GPU), TIMING, tmp_path / "fleet")
    assert [folder.name for folder in folders] == ["1b-00.0_GPU-A", "43-00.0_GPU-B", "GPU-C"]
    measured = [read_records(folder / "measurements/gemm.jsonl", Session) for folder in folders]
    assert [one.device_uuid for (one,) in measured] == ["GPU-A", "GPU-B", "GPU-C"]
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_ops_that_are_left_after_the_time_limit_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(monkeypatch, tmp_path)
    monkeypatch.setattr(panels, "LONGEST_S", 0.0)
    panel = PRODUCTS | {"probe_math": PRODUCTS["gemm"] | {"op": "probe_math"}}
    with pytest.raises(HealthError, match="no card"):
        measure_card(panel, environment(), TIMING, tmp_path / "fleet")
    assert "not measured after 0 s: gemm, probe_math" in capsys.readouterr().err


def test_the_name_of_a_node_never_becomes_a_path_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("../../elsewhere", "a b"):
        monkeypatch.setenv("SLURMD_NODENAME", name)
        with pytest.raises(HealthError, match="becomes a folder"):
            node_name()
