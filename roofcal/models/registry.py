"""The models of time by name, and what they read.

A model is a module of this package with

    MODEL                                   its name
    product_recipes(sources)                recipes of op gemm it can answer from these sources
    product_times(sources, recipe, m, n, k) Times of C[M,N] = A[M,K] @ B[N,K].T, float64 vectors;
                                            raises KeyError for a recipe it cannot answer
    predict(points, sources)                a Prediction per point it can answer, of any op
"""

from collections.abc import Sequence
from typing import Final, Protocol

from roofcal.core.environments import origin_environment
from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.models import calibrated, datasheet
from roofcal.models.errors import PredictError
from roofcal.models.sources import Sources
from roofcal.models.torchao import model as torchao
from roofcal.models.wave import model as wave


class Model(Protocol):
    """What every model of time has; see the module."""

    MODEL: str

    def product_recipes(self, sources: Sources, /) -> tuple[str, ...]:
        """Recipes of op gemm it can answer."""
        ...

    def product_times(
        self, sources: Sources, recipe: str, m: Array, n: Array, k: Array, /
    ) -> Times:
        """Seconds of products of one recipe."""
        ...

    def predict(self, points: Sequence[PlanPoint], sources: Sources, /) -> list[Prediction]:
        """A prediction per point it can answer."""
        ...


_ALL: Final[tuple[Model, ...]] = (datasheet, torchao, wave, calibrated)
MODELS: Final[dict[str, Model]] = {model.MODEL: model for model in _ALL}


def model_named(name: str) -> Model:
    """The model of a name; raises PredictError with the names there are.

    The name of a transferred model (roofcal.core.environments) is none of them: it says how a run
    was predicted.
    """
    origin = origin_environment(name)
    if origin is not None:
        raise PredictError(
            f"'{name}' is model calibrated of an environment: --environment {origin}"
        )
    if name not in MODELS:
        raise PredictError(f"unknown model '{name}'; there are {', '.join(MODELS)}")
    return MODELS[name]
