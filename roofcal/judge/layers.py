"""Which points a seed draws: layers of config/unlisted_layers.yaml at tokens from 1 to 16,384.

Nothing here depends on what was measured. A shape whose (n, k) a model of config/models has, at any
tensor parallelism, is left out: studies and probes may hold it.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import RootModel

from roofcal.core.language_models import Matrix, load_models
from roofcal.core.paths import CONFIG
from roofcal.core.records import PlanPoint, Protocol
from roofcal.core.yaml_files import ConfigError, read_yaml, validated
from roofcal.ops import BY_NAME
from roofcal.ops.spec import Shape

LAYERS_FILE: Final = CONFIG / "unlisted_layers.yaml"
ALONE: Final = Protocol(method="alone")
_TENSOR_PARALLEL: Final = (1, 2, 4, 8)
_TOKENS: Final = (1, 16384)
_GRAIN: Final = 16  # what fp8 products take of n and k
_MOST_FLOPS: Final = 8e12  # of one product: 13 ms of bf16 on an H100
_MOST_DRAWS: Final = 1000


class _Layers(RootModel[dict[str, dict[str, Matrix]]]):
    """Model -> matrix -> its sides."""


class Contenders(NamedTuple):
    """What is drawn of one op: so many shapes, each by these providers and recipes.

    tokens  fewest and most
    """

    op: str
    shapes: int
    pairs: tuple[tuple[str, str], ...]
    tokens: tuple[int, int] = _TOKENS


_FAST: Final = ("bf16", "fp8_tensorwise", "fp8_axiswise")
INT4: Final = "int4_groupwise_g128"
OUR_INT4: Final = ("triton", "triton_chained", "triton_specialised")
_CASTS: Final = ("fp8_tensorwise", "fp8_rowwise_dim0", "fp8_rowwise_dim1", "fp8_rowwise_both")
# Four and a half to six minutes on an H100, half of them for products.
ON_GPU: Final = (
    Contenders("gemm", 48, tuple(("cublaslt", recipe) for recipe in _FAST)),
    Contenders("gemm", 8, tuple(("triton", recipe) for recipe in _FAST[1:])),
    Contenders("mixed_gemm", 14, tuple((name, INT4) for name in OUR_INT4), (1, 256)),
    Contenders("cast", 8, tuple(("triton", recipe) for recipe in _CASTS)),
    Contenders(
        "linear",
        5,
        (("bf16_compile", "bf16"), ("triton", "fp8_tensorwise"), ("triton", "fp8_axiswise")),
        (512, 16384),
    ),
)
JUDGED_OPS: Final = tuple(dict.fromkeys(contenders.op for contenders in ON_GPU))


def unlisted_points(seed: int, device: str, file: Path = LAYERS_FILE) -> dict[str, list[PlanPoint]]:
    """Op -> the points of a seed for a GPU; equal seeds draw equal points.

    Raises ConfigError for a bad file.
    """
    generator = random.Random(seed)
    layers = sorted(unlisted_layers(file))
    points: dict[str, list[PlanPoint]] = {}
    for contenders in ON_GPU:
        op = BY_NAME[contenders.op]
        for shape in _shapes(contenders, layers, generator):
            points.setdefault(op.name, []).extend(
                PlanPoint(
                    op=op.name,
                    provider=provider,
                    recipe=recipe,
                    shape=shape,
                    device=device,
                    protocol=ALONE,
                    sweeps=("unlisted",),
                )
                for provider, recipe in contenders.pairs
                if op.takes(provider, recipe, shape)
            )
    return points


def unlisted_layers(file: Path = LAYERS_FILE) -> set[tuple[int, int]]:
    """(n, k) of all layers at every tensor parallelism, without those that config/models has."""
    errors: list[str] = []
    read = validated(_Layers, read_yaml(file, errors), file, errors)
    if read is None:
        raise ConfigError("\n".join(errors))
    listed = {
        sides
        for model in load_models(CONFIG / "models").values()
        for matrix in model.matrices.values()
        for sides in _sharded(matrix)
    }
    own = (matrix for matrices in read.root.values() for matrix in matrices.values())
    return {sides for matrix in own for sides in _sharded(matrix)} - listed


def _sharded(matrix: Matrix) -> Iterator[tuple[int, int]]:
    """The sides of a matrix at each tensor parallelism that leaves them multiples of the grain."""
    for parts in _TENSOR_PARALLEL if matrix.shard != "none" else (1,):
        n = matrix.n / parts if matrix.shard == "n" else matrix.n
        k = matrix.k / parts if matrix.shard == "k" else matrix.k
        if n % _GRAIN == 0 and k % _GRAIN == 0:
            yield int(n), int(k)


def _shapes(
    contenders: Contenders, layers: list[tuple[int, int]], generator: random.Random
) -> list[Shape]:
    """Different shapes of an op: half at a power of two of tokens, half at any number."""
    op = BY_NAME[contenders.op]
    layer_shape = op.layer_shape
    assert layer_shape is not None  # all ops of ON_GPU are parts of layers
    least, most = contenders.tokens
    shapes: list[Shape] = []
    for _ in range(_MOST_DRAWS):
        n, k = generator.choice(layers)
        doublings = generator.uniform(least.bit_length() - 1, most.bit_length() - 1)
        is_round = len(shapes) % 2 == 0
        tokens = 2 ** round(doublings) if is_round else round(2**doublings)
        shape = layer_shape(tokens, n, k)
        takes = any(op.takes(provider, recipe, shape) for provider, recipe in contenders.pairs)
        if takes and shape not in shapes and 2 * tokens * n * k <= _MOST_FLOPS:
            shapes.append(shape)
        if len(shapes) == contenders.shapes:
            break
    return shapes
