"""What is made of NVML's answers, by an NVML that stands in."""

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from roofcal.core.machine.nvml import Sensor, visible_gpus
from roofcal.core.records import Telemetry
from roofcal.measure.contender import Recorder


class Nvml:
    """Two cards as NVML describes them; `missing`: questions this driver does not support."""

    def __init__(self) -> None:
        self.missing: set[str] = set()
        self.open = 0
        self.capability = (9, 0)
        self.reasons = pynvml.nvmlClocksEventReasonSwPowerCap
        self.answers: dict[str, Any] = {
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=150 << 30, free=149 << 30),
            "nvmlDeviceGetNumGpuCores": 132 * 128,
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetMemoryBusWidth": 6144,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetEccMode": [1, 0],
            "nvmlDeviceGetMigMode": [0, 1],
            "nvmlSystemGetDriverVersion": "580.1",
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=n) for n in (7, 9)],
            "nvmlDeviceGetPowerUsage": 512_345,
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetTotalEnergyConsumption": 1_234_567,
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId=b"00000000:1B:00.0"),
        }

    def ask(self, name: str, *arguments: Any) -> Any:
        assert self.open > 0, "asked before nvmlInit or after nvmlShutdown"
        if name in self.missing:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if name in self.answers:
            return self.answers[name]
        return getattr(self, name)(*arguments)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802 (NVML's names)
        return f"GPU-{'ab'[index]}"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return uuid

    def nvmlDeviceGetUUID(self, handle: str) -> str:  # noqa: N802
        return handle

    def nvmlDeviceGetCudaComputeCapability(self, _: str) -> tuple[int, int]:  # noqa: N802
        return self.capability

    def nvmlDeviceGetCurrentClocksEventReasons(self, _: str) -> int:  # noqa: N802
        return int(self.reasons)

    def nvmlDeviceGetClockInfo(self, _: str, which: int) -> int:  # noqa: N802
        return {pynvml.NVML_CLOCK_SM: 1410, pynvml.NVML_CLOCK_MEM: 3201}[which]

    def nvmlDeviceGetMaxClockInfo(self, _: str, which: int) -> int:  # noqa: N802
        return {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 3201}[which]

    def init(self) -> None:
        self.open += 1

    def shutdown(self) -> None:
        self.open -= 1


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    stand_in = Nvml()
    names = {*stand_in.answers, *(name for name in vars(Nvml) if name.startswith("nvml"))}
    for name in names:
        monkeypatch.setattr(pynvml, name, lambda *a, name=name: stand_in.ask(name, *a))
    monkeypatch.setattr(pynvml, "nvmlInit", stand_in.init)
    monkeypatch.setattr(pynvml, "nvmlShutdown", stand_in.shutdown)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return stand_in


def test_a_card_is_described_in_si_units(nvml: Nvml) -> None:
    card = visible_gpus()[0]
    assert (card.uuid, card.name, card.compute_units) == ("GPU-a", "NVIDIA H200", 132)
    assert (card.memory_clock_hz, card.memory_bus_bits) == (3.201e9, 6144)
    assert (card.sm_clock_hz, card.max_sm_clock_hz) == (1.41e9, 1.98e9)
    assert (card.memory_bytes, card.memory_free_bytes) == (150 << 30, 149 << 30)
    assert (card.power_limit_w, card.driver) == (700.0, "580.1")
    assert card.process_ids == (7, 9)


def test_the_state_in_force_counts_and_not_the_one_behind_the_next_reboot(nvml: Nvml) -> None:
    card = visible_gpus()[0]
    assert (card.ecc, card.mig) == (True, False)


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


def test_what_a_card_does_not_say_is_none(nvml: Nvml) -> None:
    nvml.missing = {"nvmlDeviceGetEccMode", "nvmlDeviceGetMigMode", "nvmlDeviceGetMemoryBusWidth"}
    nvml.missing |= {"nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetComputeRunningProcesses"}
    card = visible_gpus()[0]
    assert (card.ecc, card.mig, card.memory_bus_bits, card.power_limit_w) == (None,) * 4
    assert card.process_ids == ()


def test_nvml_is_closed_again(nvml: Nvml) -> None:
    visible_gpus()
    assert nvml.open == 0


def test_without_a_driver_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    assert visible_gpus() == []


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        ("0", ["GPU-a"]),
        ("1", ["GPU-b"]),
        ("1,0", ["GPU-b", "GPU-a"]),
        ("GPU-b", ["GPU-b"]),
        (" 1 , GPU-a", ["GPU-b", "GPU-a"]),
        ("", []),
        ("-1", []),
        ("7", []),
        ("NoDevFiles", []),
    ],
)
def test_cards_hidden_by_cuda_visible_devices_are_not_seen(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch, setting: str, seen: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    assert [card.uuid for card in visible_gpus()] == seen


def test_a_reading_is_in_si_units_with_the_reasons_by_name(nvml: Nvml) -> None:
    nvml.reasons |= pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
    nvml.reasons |= pynvml.nvmlClocksEventReasonGpuIdle
    expected = (1.41e9, 3.201e9, 512.345, 61.0, ("power_cap", "hw_thermal"))
    assert Sensor("GPU-a").read() == expected


def test_the_energy_counter_is_in_joules_and_may_be_missing(nvml: Nvml) -> None:
    assert Sensor("GPU-a").energy_j() == 1234.567
    nvml.missing = {"nvmlDeviceGetTotalEnergyConsumption"}
    assert Sensor("GPU-a").energy_j() is None
    assert Sensor(None).energy_j() is None


def test_a_card_says_where_it_is_plugged_in(nvml: Nvml) -> None:
    assert visible_gpus()[0].pci_address == "0000:1b:00.0"
    nvml.missing = {"nvmlDeviceGetPciInfo"}
    assert visible_gpus()[0].pci_address is None


def test_a_cpu_has_no_readings(nvml: Nvml) -> None:
    nvml.missing = {"nvmlDeviceGetPowerUsage"}
    assert Sensor(None).read() is None
    assert nvml.open == 0


def test_a_card_that_says_nothing_is_told_of_once_and_has_no_readings(
    nvml: Nvml, capsys: pytest.CaptureFixture[str]
) -> None:
    """Consumer cards and virtual ones lack some questions; they can be timed all the same."""
    nvml.missing = {"nvmlDeviceGetPowerUsage"}
    sensor, recorder = Sensor("GPU-a"), Recorder()
    for index in range(3):
        recorder.record(sensor, index)
    assert recorder.telemetry() == Telemetry()
    assert capsys.readouterr().err.count("Not Supported") == 1


def test_a_reading_that_fails_in_between_leaves_a_gap_and_no_shift(nvml: Nvml) -> None:
    sensor, recorder = Sensor("GPU-a"), Recorder()
    recorder.record(sensor, 0)
    nvml.missing = {"nvmlDeviceGetTemperature"}
    recorder.record(sensor, 20)
    nvml.missing = set()
    recorder.record(sensor, 40)
    telemetry = recorder.telemetry()
    assert telemetry.sample_index == (0, 40)
    lengths = {len(getattr(telemetry, name)) for name in Telemetry.__dataclass_fields__}
    assert lengths == {2}


def test_an_unknown_card_is_an_error_at_the_start(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.missing = {"nvmlDeviceGetHandleByUUID"}
    with pytest.raises(pynvml.NVMLError):
        Sensor("GPU-z")


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
