"""What NVML says of NVIDIA GPUs: their identity, and their state while samples are taken.

This is the only module that talks to NVML. It never sets anything: clocks and limits stay as they
are.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pynvml

# NVML counts cores, the study counts SMs: cores per SM by compute capability (CUDA C++ Programming
# Guide, "Arithmetic Instructions"), 128 where it is not listed.
_CORES_PER_SM = {(7, 0): 64, (7, 5): 64, (8, 0): 64}
_THROTTLE_NAMES = {
    pynvml.nvmlClocksEventReasonSwPowerCap: "power_cap",
    pynvml.nvmlClocksThrottleReasonHwSlowdown: "hw_slowdown",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "sw_thermal",
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "hw_thermal",
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "power_brake",
    pynvml.nvmlClocksEventReasonSyncBoost: "sync_boost",
    pynvml.nvmlClocksEventReasonApplicationsClocksSetting: "application_clocks",
}


# SM clock in Hz, memory clock in Hz, power in W, temperature in degrees C, throttle reasons
Reading = tuple[float, float, float, float, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One visible NVIDIA GPU as NVML describes it; SI units, None where NVML does not say."""

    uuid: str
    name: str
    compute_units: int
    memory_clock_hz: float | None
    memory_bus_bits: int | None
    memory_bytes: int
    memory_free_bytes: int
    power_limit_w: float | None
    ecc: bool | None
    mig: bool | None
    driver: str
    process_ids: tuple[int, ...]
    sm_clock_hz: float | None
    max_sm_clock_hz: float | None
    pci_address: str | None = None


@contextmanager
def _nvml_session() -> Iterator[bool]:
    """NVML for a with block; False where there is no driver."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield False
        return
    try:
        yield True
    finally:
        pynvml.nvmlShutdown()


def visible_gpus() -> list[Gpu]:
    """The NVIDIA GPUs of this machine that CUDA_VISIBLE_DEVICES shows; [] without a driver."""
    with _nvml_session() as has_driver:
        if not has_driver:
            return []
        every = [_describe_gpu(index) for index in range(pynvml.nvmlDeviceGetCount())]
    return _chosen_gpus(every, os.environ.get("CUDA_VISIBLE_DEVICES"))


def _chosen_gpus(gpus: list[Gpu], setting: str | None) -> list[Gpu]:
    if setting is None:
        return gpus
    chosen: list[Gpu] = []
    for word in filter(None, (part.strip() for part in setting.split(","))):
        if word.isdigit():
            chosen += gpus[int(word) : int(word) + 1]
        else:
            chosen += [gpu for gpu in gpus if gpu.uuid.startswith(word)]
    return chosen


def _describe_gpu(index: int) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    capability = tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle))
    cores = pynvml.nvmlDeviceGetNumGpuCores(handle)
    processes = _answer_or_none(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    return Gpu(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        name=pynvml.nvmlDeviceGetName(handle),
        compute_units=cores // _CORES_PER_SM.get(capability, 128),
        memory_clock_hz=_clock_hz(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_MEM),
        memory_bus_bits=_answer_or_none(pynvml.nvmlDeviceGetMemoryBusWidth, handle),
        memory_bytes=memory.total,
        memory_free_bytes=memory.free,
        power_limit_w=_power_limit_w(handle),
        ecc=_current_flag(_answer_or_none(pynvml.nvmlDeviceGetEccMode, handle)),
        mig=_current_flag(_answer_or_none(pynvml.nvmlDeviceGetMigMode, handle)),
        driver=pynvml.nvmlSystemGetDriverVersion(),
        process_ids=tuple(process.pid for process in processes or ()),
        sm_clock_hz=_clock_hz(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        max_sm_clock_hz=_clock_hz(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
        pci_address=_pci_address(handle),
    )


def _answer_or_none(query: Any, *arguments: Any) -> Any:
    """An NVML answer, None where this card or driver does not support the question."""
    try:
        return query(*arguments)
    except pynvml.NVMLError:
        return None


def _clock_hz(query: Any, handle: Any, kind: int) -> float | None:
    """The answer of NVML, in MHz, to a question about a clock of some kind."""
    megahertz = _answer_or_none(query, handle, kind)
    return None if megahertz is None else megahertz * 1e6


def _pci_address(handle: Any) -> str | None:
    """Where the card is plugged in, as kernel logs and nvidia-smi name it: 0000:1b:00.0."""
    info = _answer_or_none(pynvml.nvmlDeviceGetPciInfo, handle)
    if info is None:
        return None
    bus_id = info.busId.decode() if isinstance(info.busId, bytes) else str(info.busId)
    return bus_id.lower()[-12:]  # NVML writes the domain with eight digits, the kernel with four


def _power_limit_w(handle: Any) -> float | None:
    milliwatts = _answer_or_none(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    return None if milliwatts is None else milliwatts / 1e3


def _current_flag(current_and_pending: Any) -> bool | None:
    return None if current_and_pending is None else bool(current_and_pending[0])


class Sensor:
    """Clock, power, temperature and throttle reasons of the GPU with `uuid`; None for a CPU."""

    def __init__(self, uuid: str | None) -> None:
        self._handle: Any = None
        self._has_warned = False
        self.max_sm_clock_hz: float | None = None
        if uuid is not None:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self.max_sm_clock_hz = _clock_hz(
                pynvml.nvmlDeviceGetMaxClockInfo, self._handle, pynvml.NVML_CLOCK_SM
            )
            self.power_limit_w = _power_limit_w(self._handle)

    def read(self) -> Reading | None:
        """A reading; None on a CPU, and where this card or driver does not answer."""
        if self._handle is None:
            return None
        try:
            return _reading(self._handle)
        except pynvml.NVMLError as error:
            # A card that does not answer is still timed; the record shows where readings lack.
            if not self._has_warned:
                sys.stderr.write(
                    f"no clock, power or temperature beside some samples: NVML: {error}\n"
                )
                self._has_warned = True
            return None

    def energy_j(self) -> float | None:
        """What the board has taken since its driver was loaded, by its own counter.

        None on a CPU, and on a card that has no counter (before Volta, and some virtual ones).
        """
        if self._handle is None:
            return None
        millijoules = _answer_or_none(pynvml.nvmlDeviceGetTotalEnergyConsumption, self._handle)
        return None if millijoules is None else millijoules / 1e3


def _reading(handle: Any) -> Reading:
    mask = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    return (
        pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) * 1e6,
        pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM) * 1e6,
        pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
        float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        tuple(name for bit, name in _THROTTLE_NAMES.items() if mask & bit),
    )
