"""Short names that people use: `h200` for nvidia-h200, `rowwise` for fp8_axiswise."""

from collections.abc import Collection
from typing import Final

from roofcal.core import paths
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
    roots = (paths.PUBLISHED, paths.REPLAY, paths.RESULTS)
    files = [file for root in roots for file in root.glob("*/*/calibration.jsonl")]
    return {file.parents[1].name for file in files}


def device_named(text: str) -> str:
    """The id of the device that a person means by all of its id, or by a part of it.

    `h200` is nvidia-h200, although nvidia-h200-nvl has that part too: a whole id behind the
    vendor comes first. A text that fits no device is returned as it is.

    Raises:
        PredictError: the text fits several devices, as `h100` does; the message says which of them
            were measured. None is taken for another: an H100 of PCIe has half the power of an SXM.
    """
    ids, name = device_ids(), text.strip().lower().replace(" ", "-").replace("_", "-")
    if text in ids or not name:
        return text
    fitting = [[i for i in ids if name in (i, i.partition("-")[2])]]
    fitting.append([i for i in ids if f"-{name}-" in f"-{i}-"])
    matches = next((matches for matches in fitting if matches), [text])
    if len(matches) > 1:
        measured = ", ".join(sorted(_calibrated_ids().intersection(matches)))
        known = f"; measured: {measured}" if measured else ""
        raise PredictError(f"'{text}' may be any of: {', '.join(matches)}{known}")
    return matches[0]


def recipe_named(text: str, recipes: Collection[str]) -> str:
    """The recipe that a person means; a text that is neither a recipe nor an alias, as it is."""
    alias = RECIPE_ALIASES.get(text, text)
    return text if text in recipes or alias not in recipes else alias
