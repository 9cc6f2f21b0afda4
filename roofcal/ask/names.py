"""Short names that people use: `h200` for nvidia-h200, `rowwise` for fp8_axiswise."""

from collections.abc import Collection
from typing import Final

from roofcal.core import paths
from roofcal.core.names import is_part
from roofcal.models.calibrations import calibrated_runs
from roofcal.models.errors import PredictError

# What torch, torchao and papers call a recipe -> its name here.
RECIPE_ALIASES: Final = {
    "axiswise": "fp8_axiswise",
    "rowwise": "fp8_axiswise",
    "fp8_rowwise": "fp8_axiswise",
    "tensorwise": "fp8_tensorwise",
    "blockwise": "fp8_blockwise_128x128",
    "fp8_blockwise": "fp8_blockwise_128x128",
}


def device_ids() -> list[str]:
    """Ids of all devices that have a datasheet, a publication or results here, sorted."""
    return sorted({file.stem for file in paths.DEVICES.glob("*.yaml")} | _calibrated_ids())


def _calibrated_ids() -> set[str]:
    """Ids of the devices that have a publication or results here."""
    return {run.device for run in calibrated_runs(paths.PUBLISHED, paths.RESULTS)}


def device_choice(text: str) -> tuple[str, str]:
    """(the id of the device that a person means by all or a part of it, what to say of that).

    `h200` is nvidia-h200, although nvidia-h200-nvl has that part too: a whole id behind the
    vendor comes first. Of several devices the only one that was measured is meant, and the remark
    names the others, because they differ: an H100 of PCIe has half the power of an SXM. The remark
    is "" where there was no choice. A text that fits no device is returned as it is.

    Raises:
        PredictError: the text fits several devices, of which none or several were measured.
    """
    ids, name = device_ids(), text.strip().lower().replace(" ", "-").replace("_", "-")
    if text in ids or not name:
        return text, ""
    fitting = [[i for i in ids if name in (i, i.partition("-")[2])]]
    fitting.append([i for i in ids if is_part(name, i)])
    matches = next((matches for matches in fitting if matches), [text])
    if len(matches) == 1:
        return matches[0], ""
    measured = sorted(_calibrated_ids().intersection(matches))
    if len(measured) == 1:
        others = ", ".join(device for device in matches if device not in measured)
        return measured[0], f"'{text}' is taken as {measured[0]}, which was measured; not {others}"
    known = f"; measured: {', '.join(measured)}" if measured else ""
    raise PredictError(f"'{text}' may be any of: {', '.join(matches)}{known}")


def recipe_named(text: str, recipes: Collection[str]) -> str:
    """The recipe that a person means; a text that is neither a recipe nor an alias, as it is."""
    alias = RECIPE_ALIASES.get(text, text)
    return text if text in recipes or alias not in recipes else alias
