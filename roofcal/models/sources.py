"""What models of time read: files of a device, each of which may be missing."""

from dataclasses import dataclass

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.models.wave.device import WaveDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """A device as the models know it.

    calibration   constants fitted on its probes in one environment
    spec          its datasheet, config/devices/<device>.yaml
    wave          its description for the wave model, config/wave/<device>.yaml
    """

    calibration: Calibration | None = None
    spec: DeviceSpec | None = None
    wave: WaveDevice | None = None
