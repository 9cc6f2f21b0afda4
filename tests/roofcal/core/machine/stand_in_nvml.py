"""An NVML that stands in: three cards, which may be lost, forbidden or sliced."""

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest


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
        }

    def ask(self, name: str, *arguments: Any) -> Any:
        assert self.open > 0, "asked before nvmlInit or after nvmlShutdown"
        if name in self.missing:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        card = str((*arguments, "")[0])
        if name == "nvmlDeviceGetHandleByIndex":
            card = self.nvmlDeviceGetHandleByIndex(int(card))
        if (name, card) in self.errors:
            raise pynvml.NVMLError(self.errors[name, card])
        if name in self.answers:
            return self.answers[name]
        return getattr(self, name)(*arguments)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802 (NVML's names)
        return f"GPU-{'abc'[index]}"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return uuid

    def nvmlDeviceGetUUID(self, handle: str) -> str:  # noqa: N802
        return handle

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:  # noqa: N802
        gib = 17 if handle.startswith("MIG") else 150
        return SimpleNamespace(total=gib << 30, free=gib - 1 << 30)

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:  # noqa: N802
        return [int(handle in self.slices), 1]

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: str, index: int) -> str:  # noqa: N802
        if index >= len(self.slices[card]):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return self.slices[card][index]

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


def plug_in(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """Put the stand-in in the place of pynvml's functions, with no card hidden."""
    stand_in = Nvml()
    names = {*stand_in.answers, *(name for name in vars(Nvml) if name.startswith("nvml"))}
    for name in names:
        monkeypatch.setattr(pynvml, name, lambda *a, name=name: stand_in.ask(name, *a))
    monkeypatch.setattr(pynvml, "nvmlInit", stand_in.init)
    monkeypatch.setattr(pynvml, "nvmlShutdown", stand_in.shutdown)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return stand_in
