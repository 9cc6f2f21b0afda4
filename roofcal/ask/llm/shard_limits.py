"""Shards of weights that no kernel of a recipe takes, by the rule that makes `predict` refuse."""

from roofcal.ask.llm.architecture import (
    INT4_RECIPE,
    LocalMatrix,
    local_matrices,
    tensor_degrees,
)
from roofcal.ask.llm.deployment import MOST_TENSOR
from roofcal.ask.shape_limits import whole_providers, why_all_refuse
from roofcal.core.language_models import LanguageModel
from roofcal.models import calibrated
from roofcal.models.errors import PredictError
from roofcal.ops import BY_NAME
from roofcal.ops.constants import calibrated_providers
from roofcal.ops.spec import Shape
from roofcal.ops.time_models import Sources


def check_shards(model: LanguageModel, recipe: str, tensor: int, sources: Sources, by: str) -> None:
    """Raises PredictError that says why_refused, and the largest degree that works."""
    reason = why_refused(model, recipe, tensor, sources, by)
    if reason is not None:
        degrees = runnable_degrees(model, recipe, sources, by)
        way_out = f"largest --tp whose shards work: {degrees[-1]}" if degrees else "no --tp works"
        raise PredictError(f"{reason}; {way_out}; --recipe bf16 takes any sides")


def runnable_degrees(
    model: LanguageModel, recipe: str, sources: Sources, by: str, most: int = MOST_TENSOR
) -> list[int]:
    """Tensor-parallel degrees up to `most` that divide a model into shards that a recipe runs."""
    return [
        tensor
        for tensor in tensor_degrees(model, most)
        if why_refused(model, recipe, tensor, sources, by) is None
    ]


def why_refused(
    model: LanguageModel, recipe: str, tensor: int, sources: Sources, by: str
) -> str | None:
    """Names the first matrix whose part on one GPU no provider runs; None where all run.

    Experts are judged each by its own sides, however many of them one kernel multiplies.
    """
    for name, matrix in local_matrices(model, tensor).items():
        reason = _shard_refusal(recipe, matrix, sources, by)
        if reason is not None:
            return (
                f"--tp {tensor} leaves {matrix.n} x {matrix.k} (n x k) of {name} of {model.model} "
                f"on a GPU, and {reason}"
            )
    return None


def _shard_refusal(recipe: str, matrix: LocalMatrix, sources: Sources, by: str) -> str | None:
    """Why no provider that the model of time knows takes n x k weights; None where one does."""
    op = BY_NAME["mixed_gemm" if recipe == "int4" else "gemm"]
    recipe = INT4_RECIPE if recipe == "int4" else recipe
    providers: list[str] = []
    if by == calibrated.MODEL and sources.calibration:
        providers = calibrated_providers(sources.calibration.constants, op.name, recipe)
    device = sources.spec.device if sources.spec else ""
    candidates = providers or whole_providers(op, recipe, device)
    return why_all_refuse(op, candidates, recipe, shape_of_weights(matrix))


def shape_of_weights(matrix: LocalMatrix) -> Shape:
    """A product by which the sides of weights are judged: some kernels refuse few rows."""
    return {"m": 4096, "n": matrix.n, "k": matrix.k}
