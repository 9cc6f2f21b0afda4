"""Which models of time can time the operators of a language model, by name, and which recipes."""

from typing import Final

from roofcal.ask.llm.architecture import RECIPES
from roofcal.ask.llm.calibrated_operators import NEEDED, CalibratedOperators
from roofcal.ask.llm.operator_times import (
    OperatorTimes,
    WaveOperators,
    datasheet_operators,
    torchao_operators,
    vectors,
)
from roofcal.models import calibrated
from roofcal.models.errors import PredictError
from roofcal.models.registry import model_named
from roofcal.ops.time_models import Sources

BY: Final = ("calibrated", "wave", "torchao", "datasheet")


def operator_times(sources: Sources, recipe: str, by: str = calibrated.MODEL) -> OperatorTimes:
    """The times by a model of time, one of BY.

    Raises PredictError where what the model reads of the device is missing, or where the model has
    no rate or constant of the recipe.
    """
    calibration = sources.calibration if by == calibrated.MODEL else None
    spec, is_calibrated = sources.spec, by == calibrated.MODEL
    if spec is None or (is_calibrated and calibration is None):
        device = sources.calibration.device if sources.calibration else "the device"
        needed = "a calibration and a file" if is_calibrated else "a file"
        raise PredictError(f"{device} needs {needed} in config/devices")
    if calibration is not None:
        missing = [name for name in NEEDED if name not in calibration.constants]
        if missing:
            raise PredictError(
                f"the calibration of {calibration.device} has no {', '.join(missing)}; "
                "run `make study` again: probe_launch and probe_copy measure them"
            )
    if by == "wave" and spec.wave is None:
        raise PredictError(f"config/devices/{spec.device}.yaml has no section 'wave'")
    recipes = estimable_recipes(sources, by)
    if recipe not in recipes:
        what = "the calibration" if is_calibrated else f"model '{by}'"
        raise PredictError(
            f"{what} of {spec.device} does not know recipe '{recipe}' of `llm`; "
            f"it knows {', '.join(recipes) or 'none'}"
        )
    if calibration is not None:
        return CalibratedOperators(calibration=calibration, spec=spec)
    if by == "wave" and spec.wave is not None:
        return WaveOperators(device=spec.wave)
    return torchao_operators(spec) if by == "torchao" else datasheet_operators(spec)


def can_estimate(sources: Sources) -> bool:
    """Whether the calibrated operator_times has what it needs for at least one recipe."""
    constants = sources.calibration.constants if sources.calibration else {}
    has_all = sources.spec is not None and all(name in constants for name in NEEDED)
    return has_all and bool(estimable_recipes(sources))


def estimable_recipes(sources: Sources, by: str = calibrated.MODEL) -> tuple[str, ...]:
    """Recipes of `llm` that a model can time: all need bf16, because head and router run in it."""
    model, timed = model_named(by), ["int4"]
    for recipe in set(model.product_recipes(sources)) & set(RECIPES):
        try:  # a part of the constants of a recipe may have been fitted
            model.product_times(sources, recipe, *vectors(1024, 1024, 1024))
        except KeyError:
            continue
        timed.append(recipe)
    return tuple(name for name in RECIPES if name in timed) if "bf16" in timed else ()
