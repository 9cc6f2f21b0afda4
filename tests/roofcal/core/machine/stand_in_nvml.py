"""An NVML that stands in: three cards, which may be lost, forbidden or sliced."""

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from roofcal.core.machine.nvml import Gpu

H200 = Gpu(
    uuid="GPU-1",
    name="NVIDIA H200",
    compute_units=132,
    memory_clock_hz=3.201e9,
    memory_bus_bits=6016,
    memory_bytes=150 << 30,
    memory_free_bytes=100 << 30,
    power_limit_w=700.0,
    ecc=True,
    mig=False,
    driver="580.1",
    process_ids=(),
    sm_clock_hz=345e6,
    max_sm_clock_hz=1980e6,
)
SM, MEMORY = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM


class Nvml:
    """Three cards as NVML describes them.

    missing  questions that this driver does not support
    errors   (question, card) -> the error that a card answers it with
    slices   card -> the UUIDs of its slices; in MIG mode is a card that is listed here
    """

    def __init__(self) -> None:
        self.missing: set[str] = set()
        self.errors: dict[tuple[str, str], int] = {}
        self.slices: dict[str, list[str]] = {}
        self.open = 0
        self.capability = (9, 0)
        self.reasons = pynvml.nvmlClocksEventReasonSwPowerCap
        self.answers: dict[str, Any] = {
            "nvmlDeviceGetCount": 3,
            "nvmlDeviceGetNumGpuCores": 132 * 128,
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetAttributes": SimpleNamespace(
                multiprocessorCount=16, gpuInstanceSliceCount=1, memorySizeMB=18_000
            ),
            "nvmlDeviceGetMaxMigDeviceCount": 7,
            "nvmlSystemGetCudaDriverVersion_v2": 13_000,
            "nvmlDeviceGetMemoryBusWidth": 6144,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetEccMode": [1, 0],
            "nvmlSystemGetDriverVersion": "580.1",
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=n) for n in (7, 9)],
            "nvmlDeviceGetPowerUsage": 512_345,
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetTotalEnergyConsumption": 1_234_567,
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId=b"00000000:1B:00.0"),
            "nvmlDeviceGetHandleByIndex": lambda index: f"GPU-{'abc'[index]}",
            "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
            "nvmlDeviceGetUUID": lambda handle: handle,
            "nvmlDeviceGetMemoryInfo": self._memory,
            "nvmlDeviceGetMigMode": lambda handle: [int(handle in self.slices), 1],
            "nvmlDeviceGetMigDeviceHandleByIndex": self._slice,
            "nvmlDeviceGetCudaComputeCapability": lambda _: self.capability,
            "nvmlDeviceGetCurrentClocksEventReasons": lambda _: int(self.reasons),
            "nvmlDeviceGetClockInfo": lambda _, which: {SM: 1410, MEMORY: 3201}[which],
            "nvmlDeviceGetMaxClockInfo": lambda _, which: {SM: 1980, MEMORY: 3201}[which],
        }

    def ask(self, name: str, *arguments: Any) -> Any:
        assert self.open > 0, "asked before nvmlInit or after nvmlShutdown"
        if name in self.missing:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        card = str((*arguments, "")[0])
        if name == "nvmlDeviceGetHandleByIndex":
            card = self.answers[name](int(card))
        if (name, card) in self.errors:
            raise pynvml.NVMLError(self.errors[name, card])
        answer = self.answers[name]
        return answer(*arguments) if callable(answer) else answer

    @staticmethod
    def _memory(handle: str) -> SimpleNamespace:
        gib = 17 if handle.startswith("MIG") else 150
        return SimpleNamespace(total=gib << 30, free=gib - 1 << 30)

    def _slice(self, card: str, index: int) -> str:
        if index >= len(self.slices[card]):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return self.slices[card][index]

    def init(self) -> None:
        self.open += 1

    def shutdown(self) -> None:
        self.open -= 1


def plug_in(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """Put the stand-in in the place of pynvml's functions, with no card hidden."""
    stand_in = Nvml()
    for name in stand_in.answers:
        monkeypatch.setattr(pynvml, name, lambda *a, name=name: stand_in.ask(name, *a))
    monkeypatch.setattr(pynvml, "nvmlInit", stand_in.init)
    monkeypatch.setattr(pynvml, "nvmlShutdown", stand_in.shutdown)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return stand_in
