"""The product against float64 of the dequantised weights: interpreter, or every kernel on a GPU."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from kernels.int4 import gemm as int4
from kernels.int4 import rule as int4_rule
from kernels.int4.constants import SpecialisedConstants
from kernels.int4.gemm import default_config, int4_gemm, int4_gemm_reference
from kernels.int4.packing import pack, quantise
from kernels.int4.rule import (
    INT4_PLAIN,
    RULES,
    Int4Config,
    Int4DirectConfig,
    Int4PlainConfig,
    Int4SpecialisedConfig,
    Int4StagedConfig,
    for_many_tokens,
)
from kernels.int4.rule import (
    SPECIALISED as SPECIALISED_RULE,
)
from tests.kernels.int4.int4_cases import activations, error, weights, weights_without_memory

# rounding to bf16 costs 1.7e-3 in norm, 4e-3 at most; the interpreter truncates instead
LIMIT = 4e-3 if torch.cuda.is_available() else 8e-3


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("group", [32, 64, 128, 256])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_kind_of_weights_is_multiplied(
    dtype: torch.dtype, group: int, zeros: bool, device: torch.device
) -> None:
    w = weights(64, 256, group, device, zeros=zeros, dtype=dtype)
    x = activations(3, 256, device, dtype)
    assert error(int4_gemm(x, w), x, w) < LIMIT


@pytest.mark.parametrize(
    ("rows", "tokens"), [(1, 1), (63, 15), (70, 16), (64, 17), (1, 33), (70, 65)]
)
def test_ragged_sizes(rows: int, tokens: int, device: torch.device) -> None:
    w = weights(rows, 128, 32, device)
    x = activations(tokens, 128, device)
    memory = torch.full((tokens + 2, rows), float("nan"), dtype=x.dtype, device=device)
    out = memory[:tokens]
    assert int4_gemm(x, w, out=out).data_ptr() == out.data_ptr()
    assert error(out, x, w) < LIMIT
    assert memory[tokens:].isnan().all()


def test_whole_numbers_are_summed_exactly(device: torch.device) -> None:
    generator = torch.Generator().manual_seed(5)
    levels = torch.randint(-7, 8, (64, 128), generator=generator).float()
    levels[:, ::32] = 7  # fixes every group's scale at one
    w = pack(quantise(levels.to(device), 32, dtype=torch.float16))
    x = torch.randint(-2, 3, (4, 128), generator=generator).to(torch.float16).to(device)
    expected = x.cpu().double() @ levels.double().t()
    assert torch.equal(int4_gemm(x, w).cpu(), expected.to(torch.float16))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_stays_in_its_token(value: float, device: torch.device) -> None:
    """The sign of an infinity can be lost (NaN), as the docstring of int4_gemm says."""
    w = weights(64, 128, 128, device)
    x = activations(4, 128, device)
    x[2, 5] = value
    finite = int4_gemm(x, w).isfinite()
    assert finite[[0, 1, 3]].all()
    assert not finite[2].any()


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        *((config, 20) for config in INT4_PLAIN),
        *((replace(INT4_PLAIN[0], split=split), 5) for split in (2, 4)),  # of three units
    ],
)
def test_the_configurations_of_plain_triton_are_right(
    config: Int4PlainConfig, tokens: int, device: torch.device
) -> None:
    w = weights(70, 384, 32, device, zeros=True)
    x = activations(tokens, 384, device)
    assert error(int4_gemm(x, w, config=config), x, w) < 8e-3


def test_the_reference_is_the_product_with_the_dequantised_weights() -> None:
    dense = torch.randn(8, 128, generator=torch.Generator().manual_seed(1))
    w = pack(quantise(dense, 64))
    eye = torch.eye(128, dtype=torch.bfloat16)
    rounding = (int4_gemm_reference(eye, w).t() - dense.double()).norm() / dense.double().norm()
    assert 0.03 < float(rounding) < 0.15


DIRECT = Int4DirectConfig(row_tiles=1, split=1, num_warps=2, depth=1, token_tile=8)
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "vector": ({"x": torch.zeros(256)}, r"x: got shape \(256,\), wanted \[tokens >= 1, k = 256\]"),
    "no token": ({"x": torch.zeros(0, 256)}, r"x: got shape \(0, 256\)"),
    "other k": (
        {"x": torch.zeros(2, 128, dtype=torch.bfloat16)},
        r"x: got shape \(2, 128\), wanted \(2, 256\)",
    ),
    "fp32": ({"x": torch.zeros(2, 256)}, r"x: got torch\.float32, wanted torch\.bfloat16"),
    "strided": (
        {"x": torch.zeros(256, 2, dtype=torch.bfloat16).t()},
        r"x: got strides \(1, 2\), wanted a contiguous tensor",
    ),
    "misaligned": (
        {"x": torch.zeros(513, dtype=torch.bfloat16)[1:].view(2, 256)},
        "x: got an address that is no multiple of 16 bytes",
    ),
    "out": (
        {"out": torch.zeros(2, 65, dtype=torch.bfloat16)},
        r"out: got shape \(2, 65\), wanted \(2, 64\)",
    ),
    "misfit": (
        {"config": replace(DIRECT, num_warps=4)},
        "config: got Int4DirectConfig.*wanted one that divides 64 rows x 256 columns",
    ),
    "misfit of a specialised one": (
        {"config": Int4SpecialisedConfig(part_rows=64, split=3, slots=4, token_tile=64)},
        "config: got .*without any of its 2 units of 128 columns, wanted another split, as 2",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case: str, device: torch.device) -> None:
    changed, message = BAD[case]
    good: dict[str, Any] = {
        "x": activations(2, 256, device),
        "weights": weights(64, 256, 64, device),
    }
    changed = {name: moved(value, device) for name, value in changed.items()}
    with pytest.raises(ValueError, match=message):
        int4_gemm(**(good | changed))


def moved(value: Any, device: torch.device) -> Any:
    # an expanded or shifted tensor would lose its strides or its address in a copy
    if isinstance(value, torch.Tensor) and value.device != device:
        storage = value.untyped_storage().to(device=device)
        empty = torch.empty(0, dtype=value.dtype, device=device)
        return empty.set_(storage, value.storage_offset(), value.shape, value.stride())
    return value


def test_bad_weights_are_named(device: torch.device) -> None:
    w = weights(64, 256, 64, device, zeros=True)
    x = activations(2, 256, device)
    assert w.zeros is not None
    for changed, message in [
        ({"packed": w.packed[:, :1]}, r"weights\.packed: got shape \(4, 1, 1024\)"),
        ({"scales": w.scales.float()}, r"weights\.scales: got torch\.float32"),
        ({"zeros": w.zeros.half()}, r"weights\.zeros: got torch\.float16, wanted torch\.bfloat16"),
        ({"group": 48}, "group: got 48"),
    ]:
        with pytest.raises(ValueError, match=message):
            int4_gemm(x, replace(w, **changed))  # type: ignore[arg-type]


def test_more_tokens_than_a_grid_has_blocks_for_are_refused() -> None:
    w = weights_without_memory(64, 128)
    x = torch.empty(64 * 65536, 128, dtype=torch.bfloat16, device="meta")
    config = int4_rule.plain(64)
    with pytest.raises(ValueError, match=r"x: got 4194304 tokens .* split the product"):
        int4.check_config(config, x, w, chained=False)
    int4.check_config(config, x[: 64 * 65535], w, chained=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="about a machine without a GPU")
def test_kernels_for_hopper_are_refused_elsewhere() -> None:
    cpu = torch.device("cpu")
    x, w = activations(2, 256, cpu), weights(64, 256, 64, cpu)
    assert isinstance(default_config(x, w), Int4PlainConfig)
    with pytest.raises(ValueError, match=r"config: got .* wanted an Int4PlainConfig outside of sm"):
        int4_gemm(x, w, config=DIRECT)
    with pytest.raises(ValueError, match="chained: got True, wanted False"):
        int4_gemm(x, w, chained=True)


def test_a_cpu_without_the_interpreter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton import knobs

    cpu = torch.device("cpu")
    monkeypatch.setattr(knobs.runtime, "interpret", False)
    with pytest.raises(ValueError, match="x: got device cpu, wanted a GPU; int4_gemm_reference"):
        int4_gemm(activations(2, 256, cpu), weights(64, 256, 64, cpu))


STAGED = Int4StagedConfig(
    rows=64, split=2, num_warps=4, stages=2, unroll=1, token_tile=16, matrix="sync"
)
SPECIALISED = Int4SpecialisedConfig(part_rows=64, split=1, slots=4, token_tile=64)
# Of the rule: the blocks of three and four parts, and the largest one. Three parts have a slot
# less, which leaves room for scales of groups of 64.
OF_THE_RULE = [
    config
    for row in RULES[SPECIALISED_RULE]
    for config in row.configs
    if isinstance(config, Int4SpecialisedConfig)
]
THREE_PARTS, FOUR_PARTS = (
    next(c for c in OF_THE_RULE if (c.parts, c.token_tile) == sides)
    for sides in ((3, 128), (4, 64))
)
MANY_TOKENS = max(OF_THE_RULE, key=lambda config: config.block_rows * config.token_tile)
HOPPER: dict[str, Int4Config] = {
    "direct": replace(DIRECT, split=2),
    "direct in tiles": replace(DIRECT, row_tiles=4, depth=2, token_tile=16),
    "sync": STAGED,
    "group": replace(STAGED, matrix="group"),
    "overlapped": replace(STAGED, matrix="overlapped", unroll=2, split=1),
    "specialised": SPECIALISED,
    "specialised, uneven split": replace(SPECIALISED, split=3, part_rows=128, slots=2),
    "specialised, three parts": replace(THREE_PARTS, split=2, slots=4),
    "specialised, four parts": replace(FOUR_PARTS, split=2),
    "specialised, many tokens": MANY_TOKENS,
    "specialised, eight parts of k": replace(SPECIALISED, split=8),
    "specialised, more parts of k than strips": replace(SPECIALISED, split=5, token_tile=32),
}
# (rows, tokens, k) of the products of a case
FEW = (130, 21, 512)
SIZES: dict[str, tuple[int, int, int]] = {
    "specialised, uneven split": (130, 21, 1024),  # parts of three units of 128 columns, three, two
    "specialised, three parts": (500, 150, 1920),  # parts of eight units and of seven
    "specialised, four parts": (600, 100, 1920),
    "specialised, many tokens": (600, 150, 1152),  # nine units
    "specialised, eight parts of k": (130, 90, 1024),
    "specialised, more parts of k than strips": (130, 40, 1152),  # parts of two units, and of one
}


@pytest.mark.parametrize(
    "name", ["specialised, three parts", "specialised, four parts", "specialised, many tokens"]
)
def test_larger_cases_fill_their_ring_again_in_several_blocks_of_rows_and_tokens(name: str) -> None:
    config, (rows, tokens, k) = HOPPER[name], SIZES[name]
    assert isinstance(config, Int4SpecialisedConfig)
    w = weights_without_memory(rows, k)
    assert config.fits(w)
    units_of_others = SpecialisedConstants.of(config, w).units
    assert k // 128 - (config.split - 1) * units_of_others > config.slots
    _, across, down = config.grid(w, tokens)
    assert (across, down) == (3, 2)
    assert rows % config.block_rows  # the last blocks are not full
    assert tokens % config.token_tile


@pytest.mark.gpu
@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("group", [32, 64, 128, 512])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", HOPPER)
def test_kernels_for_hopper_multiply_every_kind_of_weights(
    name: str, dtype: torch.dtype, group: int, zeros: bool, chained: bool
) -> None:
    device = torch.device("cuda")
    config = HOPPER[name]
    rows, tokens, k = SIZES.get(name, FEW)
    group = k if group == 512 else group
    w = weights(rows, k, group, device, zeros=zeros, dtype=dtype)
    x = activations(tokens, k, device, dtype)
    if isinstance(config, Int4SpecialisedConfig) and group == 32:
        assert not config.fits(w)
        return
    if group == 32 and isinstance(config, Int4DirectConfig):  # no registers for wider tiles
        config = replace(config, token_tile=8)
    out = int4_gemm(x, w, config=config, chained=chained)
    assert error(out, x, w) < LIMIT
    assert torch.equal(int4_gemm(x, w, config=config, chained=chained), out)


@pytest.mark.gpu
@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("group", [64, 128])
@pytest.mark.parametrize("tokens", [1, 8, 9, 16, 17, 32, 33, 64, 100, 256])
@pytest.mark.parametrize(("rows", "k"), [(3584, 8192), (1000, 1536), (28672, 8192)])
def test_the_table_of_configurations_is_right_on_layers(
    rows: int, k: int, tokens: int, group: int, chained: bool
) -> None:
    device = torch.device("cuda")
    if chained and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("programmatic dependent launch is for sm_90")
    w = weights(rows, k, group, device)
    x = activations(tokens, k, device)
    assert error(int4_gemm(x, w, chained=chained), x, w) < LIMIT


@pytest.mark.gpu
@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("tokens", [17, 32, 33, 64, 65, 128, 129, 300])
@pytest.mark.parametrize(
    ("rows", "k", "group"),
    [(3584, 8192, 128), (1000, 1536, 64), (10240, 2048, 2048), (28672, 1024, 128)],
)
def test_specialised_products_of_many_tokens_are_right_on_layers(
    rows: int, k: int, group: int, tokens: int, chained: bool
) -> None:
    device = torch.device("cuda")
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("written for sm_90")
    w = weights(rows, k, group, device)
    x = activations(tokens, k, device)
    config = for_many_tokens(w, tokens)
    assert config is not None
    assert error(int4_gemm(x, w, chained=chained, config=config), x, w) < LIMIT
