"""What is made of NVML's answers, by an NVML that stands in."""

from types import SimpleNamespace

import pynvml
import pytest

from roofcal.core.machine.nvml import Sensor, survey_gpus, visible_gpus
from roofcal.core.records import Telemetry
from roofcal.measure.contender import Recorder
from tests.roofcal.core.machine.stand_in_nvml import Nvml, plug_in


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    return plug_in(monkeypatch)


def test_a_card_is_described_in_si_units(nvml: Nvml) -> None:
    card = visible_gpus()[0]
    assert (card.uuid, card.name, card.compute_units) == ("GPU-a", "NVIDIA H200", 132)
    assert (card.memory_clock_hz, card.memory_bus_bits) == (3.201e9, 6144)
    assert (card.sm_clock_hz, card.max_sm_clock_hz) == (1.41e9, 1.98e9)
    assert (card.memory_bytes, card.memory_free_bytes) == (150 << 30, 149 << 30)
    assert (card.power_limit_w, card.driver) == (700.0, "580.1")
    assert (card.process_ids, card.pci_address) == ((7, 9), "0000:1b:00.0")
    assert (card.ecc, card.mig) == (True, False), "in force, not behind the next reboot"
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("capability", "cores", "units"),
    [((9, 0), 16896, 132), ((8, 0), 6912, 108), ((8, 9), 18176, 142), ((7, 0), 5120, 80)],
)
def test_multiprocessors_follow_from_cores_and_architecture(
    nvml: Nvml, capability: tuple[int, int], cores: int, units: int
) -> None:
    """H200, A100, L40S and V100 by their data sheets."""
    nvml.capability = capability
    nvml.answers["nvmlDeviceGetNumGpuCores"] = cores
    assert visible_gpus()[0].compute_units == units


@pytest.mark.parametrize(
    ("question", "names", "missing"),
    [
        ("nvmlDeviceGetEccMode", ["ecc"], None),
        ("nvmlDeviceGetMigMode", ["mig"], None),
        ("nvmlDeviceGetMemoryBusWidth", ["memory_bus_bits"], None),
        ("nvmlDeviceGetEnforcedPowerLimit", ["power_limit_w"], None),
        ("nvmlDeviceGetComputeRunningProcesses", ["process_ids"], ()),
        # A GB10 has no memory of its own to tell of.
        ("nvmlDeviceGetMemoryInfo", ["memory_bytes", "memory_free_bytes"], None),
        ("nvmlSystemGetDriverVersion", ["driver"], None),
        ("nvmlDeviceGetPciInfo", ["pci_address"], None),
        ("nvmlDeviceGetCudaComputeCapability", [], None),
    ],
)
def test_what_a_card_does_not_say_is_none(
    nvml: Nvml, question: str, names: list[str], missing: object
) -> None:
    nvml.missing = {question}
    card = visible_gpus()[0]
    assert [getattr(card, name) for name in names] == [missing] * len(names)
    assert card.compute_units == 132


def test_zero_is_no_size_and_no_power(nvml: Nvml) -> None:
    """Drivers say 0 for what they do not know, which no record may hold."""
    none = {"nvmlDeviceGetMemoryBusWidth": 0, "nvmlDeviceGetEnforcedPowerLimit": 0}
    nvml.answers |= none | {"nvmlDeviceGetMemoryInfo": SimpleNamespace(total=0, free=0)}
    card = visible_gpus()[0]
    assert (card.memory_bytes, card.memory_bus_bits, card.power_limit_w) == (None,) * 3


@pytest.mark.parametrize(
    ("code", "question"),
    [
        (pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetHandleByIndex"),
        (pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetName"),
        (pynvml.NVML_ERROR_GPU_IS_LOST, "nvmlDeviceGetMemoryInfo"),
        (pynvml.NVML_ERROR_RESET_REQUIRED, "nvmlDeviceGetMemoryInfo"),
    ],
)
def test_a_card_that_does_not_answer_is_named_and_left_out(
    nvml: Nvml, code: int, question: str
) -> None:
    """Also where it is lost at a question whose answer may be missing."""
    nvml.errors[question, "GPU-b"] = code
    survey = survey_gpus()
    assert [card.uuid for card in survey.visible] == ["GPU-a", "GPU-c"]
    (sentence,) = survey.silent
    assert sentence.startswith(("GPU 1 is left out", "GPU-b is left out"))
    assert str(pynvml.NVMLError(code)) in sentence
    assert nvml.open == 0


def test_a_card_that_is_hidden_may_be_lost_and_one_of_another_job_has_no_number(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.errors["nvmlDeviceGetHandleByIndex", "GPU-b"] = pynvml.NVML_ERROR_GPU_IS_LOST
    for setting, seen in {"0,2": ["GPU-a", "GPU-c"], "GPU-c,GPU-a": ["GPU-c", "GPU-a"]}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
        survey = survey_gpus()
        assert [card.uuid for card in survey.visible] == seen
        assert (survey.silent, survey.hiding) == ([], [])
    # A cgroup of SLURM: NVML counts the card, CUDA does not.
    nvml.errors = {("nvmlDeviceGetHandleByIndex", "GPU-a"): pynvml.NVML_ERROR_NO_PERMISSION}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    survey = survey_gpus()
    assert [card.uuid for card in survey.visible] == ["GPU-b"]
    assert "GPU 0 is left out: not ours to use" in survey.forbidden[0]


def test_slices_are_gpus_of_their_own_and_a_card_without_any_says_the_way_out(nvml: Nvml) -> None:
    nvml.slices = {"GPU-b": ["MIG-b1", "MIG-b2"]}
    nvml.missing = {"nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetMemoryBusWidth"}
    one = visible_gpus()[1]
    assert [card.uuid for card in visible_gpus()] == ["GPU-a", "MIG-b1", "MIG-b2", "GPU-c"]
    assert (one.name, one.compute_units, one.mig) == ("NVIDIA H200 MIG 1g.18gb", 16, True)
    assert one.memory_bytes == 17 << 30
    assert [card.mig for card in visible_gpus()] == [False, True, True, False]
    nvml.slices = {"GPU-a": []}
    (sentence,) = survey_gpus().silent
    assert "GPU 0 (GPU-a) is left out: it is in MIG mode" in sentence
    assert "`nvidia-smi -i 0 -mig 0`" in sentence


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        ("0", ["GPU-a"]),
        ("1,0", ["MIG-b1", "MIG-b2", "GPU-a"]),
        (" 2 , GPU-a", ["GPU-c", "GPU-a"]),
        ("GPU-b", ["MIG-b1", "MIG-b2"]),
        ("MIG-b2,MIG-b1", ["MIG-b2", "MIG-b1"]),
        ("0,7,1", ["GPU-a"]),  # the list ends at the first word that names no GPU
        ("-1,0", []),
        *((hides_all, []) for hides_all in ("", "-1", "7", "NoDevFiles", "GPU-z", "MIG-x")),
    ],
)
def test_cuda_visible_devices_names_cards_and_slices_and_says_so_if_it_hides_all(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch, setting: str, seen: list[str]
) -> None:
    nvml.slices = {"GPU-b": ["MIG-b1", "MIG-b2"]}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    survey = survey_gpus()
    assert [card.uuid for card in survey.visible] == seen
    said = [f"CUDA_VISIBLE_DEVICES={setting!r} hides all NVIDIA GPUs"] * (not seen)
    assert [sentence.partition(" of this")[0] for sentence in survey.hiding] == said


def test_a_driver_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    code = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND

    def fail() -> None:
        raise pynvml.NVMLError(code)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    assert visible_gpus() == []
    code = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert "the NVIDIA driver does not answer" in survey_gpus().silent[0]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # the CPU is meant
    assert survey_gpus() == ([], [], [], [])


def test_a_reading_is_in_si_units_with_the_reasons_by_name(nvml: Nvml) -> None:
    nvml.reasons |= pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
    nvml.reasons |= pynvml.nvmlClocksEventReasonGpuIdle
    expected = (1.41e9, 3.201e9, 512.345, 61.0, ("power_cap", "hw_thermal"))
    assert Sensor("GPU-a").read() == expected
    assert Sensor("GPU-a").energy_j() == 1234.567
    nvml.missing = {"nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetHandleByUUID"}
    with pytest.raises(pynvml.NVMLError):
        Sensor("GPU-z")
    nvml.missing -= {"nvmlDeviceGetHandleByUUID"}
    assert Sensor("GPU-a").energy_j() is None
    cpu = Sensor(None)
    assert (cpu.read(), cpu.energy_j()) == (None, None)


def test_a_reading_that_fails_is_told_of_once_and_leaves_a_gap_and_no_shift(
    nvml: Nvml, capsys: pytest.CaptureFixture[str]
) -> None:
    """Consumer cards and virtual ones lack some questions; they can be timed all the same."""
    sensor, recorder = Sensor("GPU-a"), Recorder()
    for index, missing in enumerate([set(), {"nvmlDeviceGetTemperature"}] * 2 + [set()]):
        nvml.missing = missing
        recorder.record(sensor, index)
    telemetry = recorder.telemetry()
    assert telemetry.sample_index == (0, 2, 4)
    assert {len(getattr(telemetry, name)) for name in Telemetry.__dataclass_fields__} == {3}
    assert capsys.readouterr().err.count("Not Supported") == 1


@pytest.mark.gpu
def test_a_real_card_answers_in_plausible_numbers() -> None:
    card = visible_gpus()[0]
    reading = Sensor(card.uuid).read()
    assert reading is not None
    sm, memory, power, temperature, _ = reading
    assert 1e8 < sm < 5e9
    assert 1e8 < memory < 2e10
    assert 5 < power < 2000
    assert 10 < temperature < 110
    assert 8 <= card.compute_units <= 1000
