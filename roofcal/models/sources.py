"""What models of time read: files of a device, each of which may be missing."""

from dataclasses import dataclass

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.core.wave_device import WaveDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """A device as the models know it.

    calibration   constants fitted on its probes in one environment
    spec          its file config/devices/<device>.yaml: datasheet and, for some, `wave`
    """

    calibration: Calibration | None = None
    spec: DeviceSpec | None = None

    @property
    def wave(self) -> WaveDevice | None:
        """What the wave model knows of the device; None where its file does not describe it."""
        return self.spec.wave if self.spec else None
