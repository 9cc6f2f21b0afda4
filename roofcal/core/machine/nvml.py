"""What NVML says of NVIDIA GPUs: their identity, and their state while samples are taken.

This is the only module that talks to NVML. It never sets anything: clocks and limits stay as they
are. A card in MIG mode is as many GPUs as it has slices, because CUDA runs on slices alone there.
"""

import math
import os
import re
import sys
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, NamedTuple

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
# What nvmlInit says where there is nothing to ask: no driver, or no card behind it.
_NO_DRIVER: Final = (
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_GPU_NOT_FOUND,
)
# A card that says this to one question cannot be measured, whatever it answers to the others.
_DEAD: Final = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)
_NAMES_A_GPU: Final = re.compile(r"[0-9]+|(GPU|MIG)-.+")  # words of CUDA_VISIBLE_DEVICES

# SM clock in Hz, memory clock in Hz, power in W, temperature in degrees C, throttle reasons
Reading = tuple[float, float, float, float, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One visible NVIDIA GPU as NVML describes it; SI units, None where NVML does not say.

    mig   True for a slice: name, multiprocessors and memory are then those of the slice
    pci_address  as kernel logs and nvidia-smi name it: 0000:1b:00.0
    cuda  the newest CUDA that the driver runs, (13, 0)
    """

    uuid: str
    name: str
    compute_units: int
    memory_clock_hz: float | None
    memory_bus_bits: int | None
    memory_bytes: int | None
    memory_free_bytes: int | None
    power_limit_w: float | None
    ecc: bool | None
    mig: bool | None
    driver: str | None
    process_ids: tuple[int, ...]
    sm_clock_hz: float | None
    max_sm_clock_hz: float | None
    pci_address: str | None = None
    cuda: tuple[int, int] | None = None


class GpuSurvey(NamedTuple):
    """The NVIDIA GPUs of this machine: those to measure, and a sentence on each of the others.

    visible    shown by CUDA_VISIBLE_DEVICES, and answer
    silent     shown, and do not answer
    forbidden  of other users or jobs: CUDA does not see them
    hiding     one sentence where CUDA_VISIBLE_DEVICES hides all
    """

    visible: list[Gpu]
    silent: list[str]
    forbidden: list[str]
    hiding: list[str]


def visible_gpus() -> list[Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES shows and that answer; [] without a driver."""
    return survey_gpus().visible


def survey_gpus() -> GpuSurvey:
    """The GPUs of this machine; of those that CUDA_VISIBLE_DEVICES hides no more than the count.

    As for CUDA, the list of the variable ends at the first word that names no GPU.
    """
    setting = os.environ.get("CUDA_VISIBLE_DEVICES")
    words = None if setting is None else [word.strip() for word in setting.split(",")]
    is_hiding = words is not None and not _NAMES_A_GPU.fullmatch(words[0])
    try:
        pynvml.nvmlInit()
        try:
            cards, forbidden = ([], []) if is_hiding else _cards()
            named = takewhile(bool, (_named(word, cards) for word in words or ()))
            devices = [one for card in (cards if words is None else named) for one in card]
            visible: list[Gpu] = []
            silent: list[str] = []
            for device in devices:
                try:
                    if device.silence is None:
                        visible.append(_describe_gpu(device))
                    else:
                        silent.append(device.silence)
                except pynvml.NVMLError as error:
                    why = f"it does not answer (NVML: {error})"
                    silent.append(f"{device.uuids[-1]} is left out: {why}")
            hides_all = setting is not None and not devices and pynvml.nvmlDeviceGetCount() > 0
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        is_here = error.value not in _NO_DRIVER and not is_hiding
        silence = [f"the NVIDIA driver does not answer (NVML: {error})"] if is_here else []
        return GpuSurvey([], silence, [], [])
    hiding = (
        f"CUDA_VISIBLE_DEVICES={setting!r} hides all NVIDIA GPUs of this machine; to measure them "
        "unset it, or name some that `nvidia-smi -L` lists"
    )
    return GpuSurvey(visible, silent, forbidden, [hiding] if hides_all else [])


class _Device(NamedTuple):
    """A card, or a slice of one, before it is described.

    uuids     its own, for a slice behind that of its card; () where the card does not say it
    handle    what NVML knows it by
    silence   a sentence that says why it cannot be used; None where nothing is known against it
    """

    uuids: tuple[str, ...]
    handle: Any
    silence: str | None = None
    is_slice: bool = False


def _cards() -> tuple[list[list[_Device]], list[str]]:
    """(the devices of each card, by its number in CUDA; a sentence on each forbidden card)."""
    cards: list[list[_Device]] = []
    forbidden = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            cards.append(_devices_of_card(index))
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_NO_PERMISSION:
                forbidden.append(f"GPU {index} is left out: not ours to use (NVML: {error})")
            else:
                silence = f"GPU {index} is left out: it does not answer (NVML: {error})"
                cards.append([_Device((), None, silence)])
    return cards, forbidden


def _devices_of_card(index: int) -> list[_Device]:
    """The card, or its slices where it is in MIG mode; raises NVMLError where it is silent."""
    card = pynvml.nvmlDeviceGetHandleByIndex(index)
    uuid = pynvml.nvmlDeviceGetUUID(card)
    if not _current_flag(_answer_or_none(pynvml.nvmlDeviceGetMigMode, card)):
        return [_Device((uuid,), card)]
    slices = [
        _answer_or_none(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, card, place)
        for place in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(card))
    ]
    return [
        _Device((uuid, pynvml.nvmlDeviceGetUUID(handle)), handle, is_slice=True)
        for handle in slices
        if handle is not None
    ] or [
        _Device(
            (uuid,),
            card,
            f"GPU {index} ({uuid}) is left out: it is in MIG mode and this process has no slice of "
            f"it; `nvidia-smi mig -i {index} -lgip` lists the profiles of slices, "
            f"`nvidia-smi -i {index} -mig 0` makes the card whole again",
        )
    ]


def _named(word: str, cards: list[list[_Device]]) -> list[_Device]:
    """The devices that a word of CUDA_VISIBLE_DEVICES names; [] for none.

    A UUID that no card has may be that of a card that does not say its own.
    """
    if word.isdecimal():
        return cards[int(word)] if int(word) < len(cards) else []
    if not _NAMES_A_GPU.fullmatch(word):
        return []
    every = [device for devices in cards for device in devices]
    return [device for device in every if any(uuid.startswith(word) for uuid in device.uuids)] or [
        device for device in every if not device.uuids
    ]


def _describe_gpu(device: _Device) -> Gpu:
    """Raises NVMLError where the device does not say its UUID, name or multiprocessors."""
    handle, name = device.handle, str(pynvml.nvmlDeviceGetName(device.handle))
    if device.is_slice:
        size = pynvml.nvmlDeviceGetAttributes(handle)
        multiprocessors = int(size.multiprocessorCount)
        if " MIG " not in name:  # the profile of the slice, as `nvidia-smi -L` writes it
            gigabytes = math.ceil(size.memorySizeMB / 1024)
            name = f"{name} MIG {size.gpuInstanceSliceCount}g.{gigabytes}gb"
    else:
        capability = _answer_or_none(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
        cores_of_one = _CORES_PER_SM.get(capability and tuple(capability), 128)
        multiprocessors = int(pynvml.nvmlDeviceGetNumGpuCores(handle) // cores_of_one)
    pci = _answer_or_none(pynvml.nvmlDeviceGetPciInfo, handle)
    bus_id = "" if pci is None else pci.busId
    bus_id = bus_id.decode() if isinstance(bus_id, bytes) else str(bus_id)
    memory = _answer_or_none(pynvml.nvmlDeviceGetMemoryInfo, handle)
    processes = _answer_or_none(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    cuda = _answer_or_none(pynvml.nvmlSystemGetCudaDriverVersion_v2)
    limit_mw = _answer_or_none(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    return Gpu(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        name=name,
        compute_units=multiprocessors,
        memory_clock_hz=_clock_hz(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_MEM),
        memory_bus_bits=_answer_or_none(pynvml.nvmlDeviceGetMemoryBusWidth, handle) or None,
        memory_bytes=None if memory is None else memory.total or None,
        memory_free_bytes=None if memory is None else memory.free,
        power_limit_w=limit_mw / 1e3 if limit_mw else None,
        ecc=_current_flag(_answer_or_none(pynvml.nvmlDeviceGetEccMode, handle)),
        mig=device.is_slice or _current_flag(_answer_or_none(pynvml.nvmlDeviceGetMigMode, handle)),
        driver=_answer_or_none(pynvml.nvmlSystemGetDriverVersion),
        process_ids=tuple(process.pid for process in processes or ()),
        sm_clock_hz=_clock_hz(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        max_sm_clock_hz=_clock_hz(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
        # NVML writes the domain with eight digits, the kernel with four.
        pci_address=bus_id.lower()[-12:] or None,
        cuda=None if cuda is None else (cuda // 1000, cuda % 1000 // 10),
    )


def _answer_or_none(query: Any, *arguments: Any) -> Any:
    """An NVML answer, None where this card or driver does not give it.

    Raises NVMLError for a card that is lost: None would describe it as another kind of card.
    """
    try:
        return query(*arguments)
    except pynvml.NVMLError as error:
        if error.value in _DEAD:
            raise
        return None


def _clock_hz(query: Any, handle: Any, kind: int) -> float | None:
    """The answer of NVML, in MHz, to a question about a clock of some kind."""
    megahertz = _answer_or_none(query, handle, kind)
    return megahertz * 1e6 if megahertz else None  # some drivers say 0 for what they do not know


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

    def read(self) -> Reading | None:
        """A reading; None on a CPU, and where this card or driver does not answer."""
        handle = self._handle
        if handle is None:
            return None
        try:
            mask = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
            return (
                pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) * 1e6,
                pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM) * 1e6,
                pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
                float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
                tuple(name for bit, name in _THROTTLE_NAMES.items() if mask & bit),
            )
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
