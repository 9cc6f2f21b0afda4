"""A block has the sizes of its model, and no less work than its parts."""

import pytest

from roofcal.core.language_models import LanguageModel, load_model
from roofcal.ops.linear.spec import work as linear_work
from roofcal.ops.transformer_block.spec import OP, attention_flops, block_shape, matrices
from roofcal.study.config import load_study
from roofcal.study.plan import PlanError, plan_op
from tests.paths import ROOT
from tests.roofcal.study.test_plan import GPU, a_slice

MODELS = ROOT / "config" / "models"
TINY = dict(zip(OP.axes, (64, 32, 128, 256, 8, 2, 16), strict=True))


@pytest.mark.parametrize("name", ["llama3-8b", "llama3-70b", "llama3-405b", "qwen3-32b"])
def test_a_block_has_the_matrices_of_its_model(name: str) -> None:
    model = load_model(MODELS, name)
    sides = {key: (matrix.n, matrix.k) for key, matrix in model.matrices.items()}
    assert matrices(block_shape(model, 8192, 8192)) == sides


@pytest.mark.parametrize(
    ("tokens", "sequence"),
    [(4096, 4096), (8192, 8192), (16384, 8192)],
)
def test_fewer_tokens_than_a_sequence_are_one_sequence(tokens: int, sequence: int) -> None:
    shape = block_shape(load_model(MODELS, "llama3-8b"), tokens, 8192)
    assert (shape["tokens"], shape["sequence"]) == (tokens, sequence)


@pytest.mark.parametrize(
    ("name", "tokens", "change", "says"),
    [
        ("llama3-8b", 12288, {}, "12288 tokens are no whole sequences of 8192"),
        ("deepseek-v3", 8192, {}, "'deepseek-v3' has no block with the matrices qkv"),
        ("qwen3-30b-a3b", 8192, {}, "'qwen3-30b-a3b' has no block with the matrices qkv"),
        ("llama3-8b", 8192, {"architecture": None}, "takes an `architecture`"),
    ],
)
def test_parts_of_sequences_experts_and_latent_attention_are_no_such_block(
    name: str, tokens: int, change: dict[str, None], says: str
) -> None:
    model = LanguageModel.model_validate(load_model(MODELS, name).model_dump() | change)
    with pytest.raises(ValueError, match=says):
        block_shape(model, tokens, 8192)


def test_attention_counts_the_pairs_below_the_diagonal_by_hand() -> None:
    pairs = 2 * sum(range(1, 33))  # two sequences of 32
    products = 2 + 4  # forward; backward without computing the scores again
    assert attention_flops(TINY) == products * 2 * pairs * 8 * 16


@pytest.mark.parametrize("recipe", OP.recipes)
def test_a_block_is_its_linears_and_its_attention(recipe: str) -> None:
    block = OP.work(recipe, TINY)
    linears = [
        linear_work(recipe, {"m": TINY["tokens"], "n": n, "k": k})
        for n, k in matrices(TINY).values()
    ]
    assert block.flops == sum(linear.flops for linear in linears) + attention_flops(TINY)
    assert {block.math_dtype} == {linear.math_dtype for linear in linears}
    assert block.dram_bytes < sum(linear.dram_bytes for linear in linears), "no tensor between them"


def test_the_full_study_has_llama_3_at_4096_to_16384_tokens_in_one_group_each() -> None:
    study = load_study(ROOT / "config", {"study": "full"})
    points = plan_op(study.op_slice(OP.name, "cuda"), GPU)
    groups = {point.group_key for point in points}
    assert len(groups) == 2 * 3
    assert {point.shape["tokens"] for point in points} == {4096, 8192, 16384}
    assert {point.shape["hidden"] for point in points} == {4096, 8192}
    contenders = {(point.provider, point.recipe) for point in points}
    assert {
        ("bf16_compile", "bf16"),
        ("triton", "fp8_axiswise"),
        ("torchao", "fp8_tensorwise"),
    } <= (contenders)
    assert len(points) == len(groups) * len(contenders)


@pytest.mark.parametrize(
    ("op", "models", "says"),
    [
        ("gemm", {}, "gemm: has no shape for a block"),
        ("transformer_block", {}, "--slice holds no language model 'deepseek-v3'"),
        ("transformer_block", {"deepseek-v3"}, "blocks: model 'deepseek-v3' has no block with"),
    ],
)
def test_what_has_no_block_is_not_planned(op: str, models: set[str], says: str) -> None:
    blocks = {"models": ["deepseek-v3"], "tokens": [4096], "sequence": 4096}
    held = {name: load_model(MODELS, name).model_dump() for name in models}
    with pytest.raises(PlanError, match=says):
        plan_op(a_slice(op=op, sweeps={"s": {"blocks": blocks}}, models=held), GPU)
