"""The casts, compiled ahead of time: every config, on the GPUs that would use it."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kernels.cast import blocks, both_ways, columns, fused, rows, rule, short_columns, tensorwise
from kernels.cast.hopper import both_ways as hopper_both_ways
from kernels.cast.hopper import columns as hopper_columns
from kernels.cast.hopper import mx as hopper_mx
from kernels.cast.hopper.tiles import TileConfig as HopperTileConfig
from kernels.cast.rule import FEW_ROWS
from kernels.cast.tiles import TileConfig
from kernels.common.architecture import (
    ARCHITECTURES,
    SHARED_MEMORY_LIMIT,
    WITHOUT_E4M3,
    Architecture,
)
from kernels.common.fp8_scales import BLOCK, LARGEST, MX_BLOCK
from tests.kernels.compile_case import (
    AMD_WITH_E4M3,
    FP8,
    FROM_HOPPER_ON,
    NVIDIA_WITH_E4M3,
    WITH_E4M3,
    Case,
)

WITH_ROOM = tuple(
    arch for arch in NVIDIA_WITH_E4M3 if SHARED_MEMORY_LIMIT[arch] >= fused.ROOM_FOR_ROWS_AHEAD
)
WITHOUT_ROOM = tuple(arch for arch in NVIDIA_WITH_E4M3 if arch not in WITH_ROOM)
# (type of x, type of q); what holds for bf16 holds for fp16, which is as wide
SIZES = ("COUNT", "ROWS", "COLS", "STRIDE", "STEPS", "PARTIALS")
PAIRS = (("bf16", "e4m3"), ("fp32", "e4m3"), ("bf16", "e5m2"))


@dataclass(frozen=True)
class CastTypes:
    """The types of a cast; builds cases with the arguments that its kernel has."""

    source: str
    target: str

    def case(
        self,
        kernel: Any,
        num_warps: int,
        constants: dict[str, Any],
        types: dict[str, str] | None = None,
        **more: Any,
    ) -> Case:
        fp8, dtype = FP8[self.target]
        arguments = {
            **dict.fromkeys(SIZES, "i32"),
            **dict.fromkeys(("partial", "largest"), "*i32"),
            "x": f"*{self.source}",
            **dict.fromkeys(("q", "q0", "q1"), f"*{fp8}"),
            "scale": "*fp32",
            **(types or {}),
        }
        constants = {"LARGEST": LARGEST[dtype], "POWER_OF_TWO": False} | constants
        constants = {k: v for k, v in constants.items() if k in kernel.arg_names}
        signature = {
            name: arguments[name]
            for name in kernel.arg_names
            if name in arguments and name not in constants
        }
        usable = WITH_E4M3 if self.target == "e4m3" else ARCHITECTURES
        return Case(
            kernel=kernel,
            signature=signature,
            constants=constants,
            num_warps=num_warps,
            **{"architectures": usable, **more},
        )

    def hopper_case(
        self, kernel: Any, config: HopperTileConfig, constants: dict[str, Any], **more: Any
    ) -> Case:
        block = [config.cols, config.rows]
        types = more.pop("types", {})
        types["target"] = f"tensordesc<{FP8[self.target][0]}{block},{config.transposed_layout!r}>"
        constants = constants | {"CONFIG": config}
        return self.case(
            kernel,
            config.num_warps,
            constants,
            types,
            architectures=FROM_HOPPER_ON,
            gluon=True,
            **more,
        )


def cast_cases() -> Iterator[tuple[str, Case]]:
    for source, target in PAIRS:
        types = CastTypes(source, target)
        for cases in (_tensorwise, _rows, _columns, _short_columns, _blocks, _both_ways, _fused):
            for name, case in cases(types):
                yield f"{name}-{source}-{target}", case


def _tensorwise(types: CastTypes) -> Iterator[tuple[str, Case]]:
    amax = tensorwise.AMAX
    flat = {"STRIDED": False, "TAIL": True}
    if types.target == "e5m2":  # reads only: the same for both types
        constants = flat | {"BLOCK": amax.block}
        yield "amax", types.case(tensorwise._amax_kernel, amax.num_warps, constants)
    for name, config, given, partials in (
        ("cast", tensorwise.CAST_WITH_MAXIMA, False, 2048),
        ("cast_with_amax", tensorwise.CAST_WITH_MAXIMA, False, 1),
        ("cast_given", tensorwise.CAST_WITH_SCALE, True, 2048),
    ):
        cut = {"BLOCK": config.block, "STEPS": config.steps, "MOST_PARTIALS": partials}
        constants = flat | cut | {"GIVEN": given}
        yield name, types.case(tensorwise._cast_kernel, config.num_warps, constants)


def _rows(types: CastTypes) -> Iterator[tuple[str, Case]]:
    for cols in (256, 4096, rule.MOST_COLUMNS_OF_ROW):
        tile = rows.rows_tile(cols, rows.ROWS)
        constants: dict[str, Any] = {"BLOCK": tile.block, "R": tile.rows}
        yield f"rows_{cols}", types.case(rows._rows_kernel, tile.num_warps, constants)
        tile = rows.rows_tile(cols, columns.BOTH_ROWS)
        load_bytes = tile.block * tile.rows * (4 if types.source == "fp32" else 2)
        stages = columns.stages_ahead(load_bytes, columns.BOTH_PROGRAMS)
        constants = {"BLOCK": tile.block, "R": tile.rows, "STAGES": stages}
        both = types.case(columns._rows_and_columns_kernel, tile.num_warps, constants)
        yield f"both_{cols}", both
    for block in (rule.LONG_ROWS_BLOCK, rule.FEW_LONG_ROWS_BLOCK):
        warps = block // rows.LONG_ROWS_ELEMENTS
        yield f"long_rows_{block}", types.case(rows._long_rows_kernel, warps, {"BLOCK": block})
    element_bytes = 4 if types.source == "fp32" else 2
    widest = rule.MOST_BYTES_OF_LONG_ROW // element_bytes
    without = tuple(arch for arch in WITHOUT_E4M3 if isinstance(arch, int))
    gpus = NVIDIA_WITH_E4M3 if types.target == "e4m3" else without
    for cols in sorted({min(2 * rule.MOST_COLUMNS_OF_ROW, widest), widest}):
        held = rule.long_row_tile(1, cols, element_bytes)
        assert held is not None
        constants = {"HEAD": held.head, "TAIL": held.tail}
        kernel, warps = rows._two_part_rows_kernel, rows.HELD_ROW_WARPS
        case = types.case(kernel, warps, constants, architectures=gpus)
        yield f"two_part_rows_{held.head}_{held.tail}", case


def _columns(types: CastTypes) -> Iterator[tuple[str, Case]]:
    maxima, tile = columns.COLUMN_MAXIMA, columns.TRANSPOSE
    if types.target == "e5m2":
        constants: dict[str, Any] = {"BLOCK_M": maxima.rows, "BLOCK_N": maxima.cols}
        case = types.case(columns._columns_amax_kernel, maxima.num_warps, constants)
        yield "columns_amax", case
    elif types.source == "bf16":
        for factor in (LARGEST[FP8[types.target][1]], 1.0):
            constants = {"BLOCK": columns.SPREAD_BLOCK, "LARGEST": factor}
            yield f"spread_{factor}", types.case(columns._spread_largest_kernel, 4, constants)
    partials = maxima.wide_partials
    while partials <= maxima.most_partials:
        constants = {"BLOCK_M": tile.rows, "BLOCK_N": tile.cols, "PARTIALS": partials}
        kernel = columns._transpose_kernel
        yield f"transpose_{partials}", types.case(kernel, tile.num_warps, constants)
        for even in (True, False):
            case = types.hopper_case(
                hopper_columns._transpose_kernel,
                hopper_columns.TRANSPOSE,
                {"PARTIALS": partials, "EVEN": even},
                without=("shared.b8", "shfl.sync.bfly"),
                wide=False,
            )
            yield f"hopper_transpose_{partials}{'' if even else '_ragged'}", case
        partials *= 2


def _short_columns(types: CastTypes) -> Iterator[tuple[str, Case]]:
    """The fewest and the most rows; with the cast of rows, and where rows begin anywhere."""
    most = rule.SHORT_COLUMNS
    kernel = short_columns._short_columns_kernel
    beside = {"q0": "*fp8e4nv", "scale0": "*fp32"}
    alone = dict.fromkeys(beside)
    for height in (1, 16, FEW_ROWS, 512, most.most_rows, most.most_ragged_rows):
        config = rule.SHORT_COLUMNS_OF_FEW_ROWS if height <= FEW_ROWS else most
        block_m, block_n, warps = map(int, rule.short_columns_tile(height, 8192, 132, config))
        of_rows = rows.rows_tile(2048, rows.ROWS)
        tile = {"ALIGN": 16, "BLOCK_M": block_m, "BLOCK_N": block_n}
        tile |= {"R": of_rows.rows, "BLOCK": of_rows.block}
        # AMD takes two passes, as others than Hopper do of so many rows
        gpus: dict[str, Any] = {
            "architectures": (90,) if height > config.most_rows else NVIDIA_WITH_E4M3,
            "wide": height > FEW_ROWS,  # few elements per thread
        }
        yield f"short_columns_{height}", types.case(kernel, warps, tile | alone, beside, **gpus)
        odd = gpus | {"odd": SIZES, "wide": False}
        case = types.case(kernel, warps, tile | alone | {"ALIGN": 1}, beside, **odd)
        yield f"short_columns_{height}_odd", case
        case = types.case(kernel, max(warps, of_rows.num_warps), tile, beside, **gpus)
        yield f"short_both_{height}", case


def _blocks(types: CastTypes) -> Iterator[tuple[str, Case]]:
    """e5m2 only where there is no e4m3, fp32 with one rounding: many cases compile for minutes."""
    kinds = ((32, "floor"), (32, "ceil"), (128, "fp32"))
    for size, scales in kinds if types.source == "bf16" else kinds[::2]:
        pointer = "*fp32" if scales == "fp32" else "*u8"
        how = {"SCALES": scales, "SIZE": size, "ALIGN": 16}
        more: dict[str, Any] = {"types": dict.fromkeys(("scale", "scale0", "scale1"), pointer)}
        if types.target == "e5m2":
            more["architectures"] = tuple(WITHOUT_E4M3)
        kernel = blocks._rows_of_blocks_kernel
        for name, along in (("", blocks.ALONG_ROWS), ("_small", blocks.SMALL_ALONG_ROWS)):
            constants: dict[str, Any] = how | {"COUNT": along.elements // size, "LONG": True}
            constants["WIDE"] = False
            yield f"blocks_{scales}{name}", types.case(kernel, along.num_warps, constants, **more)
            odd = more | {"odd": SIZES, "wide": False}
            case = types.case(kernel, along.num_warps, constants | {"ALIGN": 1}, **odd)
            yield f"blocks_{scales}{name}_odd", case
        wide = constants | {"WIDE": True}
        yield f"blocks_{scales}_wide", types.case(kernel, along.num_warps, wide, **more)
        tile = blocks.ALONG_COLUMNS
        yield f"blocks_{scales}_dim1", _transposed(types, tile, how, more)
        if size == MX_BLOCK:
            yield (
                f"blocks_{scales}_both",
                _transposed(types, blocks.ALONG_BOTH, how, more, both=True),
            )
        if size == MX_BLOCK and types.target == "e4m3":
            if types.source == "bf16":
                yield from _hopper_mx(types, scales)
            small, few = blocks.SMALL_TRANSPOSED, blocks.FEW_ROWS_TRANSPOSED
            yield f"blocks_{scales}_small_dim1", _transposed(types, small, how, more)
            yield f"blocks_{scales}_small_both", _transposed(types, small, how, more, both=True)
            yield f"blocks_{scales}_few", _transposed(types, few, how, more, both=True)
            one, narrow = replace(few, rows=1), more | {"wide": False}
            yield f"blocks_{scales}_one", _transposed(types, one, how, narrow, both=True)
    more = {"architectures": tuple(WITHOUT_E4M3)} if types.target == "e5m2" else {}
    constants = {"SCALES": "fp32", "SIZE": BLOCK}
    yield "squares", types.case(blocks._squares_kernel, blocks.SQUARES_WARPS, constants, **more)


def _both_ways(types: CastTypes) -> Iterator[tuple[str, Case]]:
    scales = dict.fromkeys(("scale0", "scale1"), "*fp32")
    for kind in ("tensorwise", "strips", "squares"):
        is_tensorwise = kind == "tensorwise"
        constants: dict[str, Any] = {"KIND": kind, "MOST_PARTIALS": 2048 if is_tensorwise else 1}
        constants |= {} if is_tensorwise else {"partial": None}
        tile = both_ways.TENSORWISE if is_tensorwise else both_ways.BLOCKS
        plain = constants | {"BLOCK_M": tile.rows, "BLOCK_N": tile.cols}
        case = types.case(both_ways._both_ways_kernel, tile.num_warps, plain, scales)
        yield f"both_ways_{kind}", case
        config = hopper_both_ways.TENSORWISE if is_tensorwise else hopper_both_ways.BLOCKS
        is_strips = kind == "strips"
        hopper = hopper_both_ways
        kernel = hopper._strips_kernel if is_strips else hopper._one_scale_kernel
        absent = {} if is_tensorwise or is_strips else {"partial": None}
        for even in (True, False):
            even_constants = {"MOST_PARTIALS": 2048, "EVEN": even} | absent
            case = types.hopper_case(kernel, config, even_constants, types=dict(scales), wide=False)
            yield f"hopper_both_ways_{kind}{'' if even else '_ragged'}", case
    known = {"MOST_PARTIALS": 1, "EVEN": True}
    kernel, config = hopper_both_ways._one_scale_kernel, hopper_both_ways.TENSORWISE
    case = types.hopper_case(kernel, config, known, types=dict(scales), wide=False)
    yield "hopper_both_ways_tensorwise_with_amax", case


def _transposed(
    types: CastTypes,
    tile: TileConfig,
    how: dict[str, Any],
    more: dict[str, Any],
    *,
    both: bool = False,
) -> Case:
    constants = how | {
        "DOWN": min(how["SIZE"], tile.rows),
        "DIM0": both,
        "BLOCK_M": tile.rows,
        "BLOCK_N": tile.cols,
        **({} if both else dict.fromkeys(("q0", "scale0"))),
    }
    return types.case(blocks._blocks_kernel, tile.num_warps, constants, **more)


def _hopper_mx(types: CastTypes, rounding: str) -> Iterator[tuple[str, Case]]:
    for both, even in itertools.product((False, True), (True, False)):
        name = f"tiles_mx_{rounding}{'_both' if both else ''}{'' if even else '_ragged'}"
        constants = {
            "CEIL": rounding == "ceil",
            "BOTH": both,
            "EVEN": even,
            **({} if both else dict.fromkeys(("q0", "scale0"))),
        }
        config = hopper_mx.ALONG_BOTH if both else hopper_mx.ALONG_COLUMNS
        source = f"tensordesc<bf16{[config.rows, config.cols]},{config.source_layout!r}>"
        kinds = {"x": source, "scale0": "*u8", "scale1": "*u8"}
        case = types.hopper_case(hopper_mx._tiles_kernel, config, constants, types=kinds, wide=both)
        yield name, case


def _fused(types: CastTypes) -> Iterator[tuple[str, Case]]:
    if (types.source, types.target) != ("bf16", "e4m3"):
        return
    arguments = dict.fromkeys(("other", "weight", "bias", "y"), "*bf16")
    arguments |= {"OTHER_STRIDE": "i32", "X_STRIDE": "i32", "eps": "fp32"}
    operands = {
        "rms_norm": {"weight"},
        "layer_norm": {"weight", "bias"},
        "silu_mul": {"other"},
        "sigmoid_grad": {"other"},
    }
    kernel = fused._fused_kernel
    for op, present in operands.items():
        longest = fused.MOST_COLUMNS[op]
        absent = dict.fromkeys({"other", "weight", "bias"} - present)
        alone: list[tuple[str, int, tuple[Architecture, ...]]] = [
            *(
                ("rowwise", cols, gpus)
                for cols in (4096, longest)
                for gpus in (NVIDIA_WITH_E4M3, AMD_WITH_E4M3)
            ),
            ("mxfp8_floor", longest, NVIDIA_WITH_E4M3),
            *([("blockwise_1x128", longest, NVIDIA_WITH_E4M3)] if op == "rms_norm" else []),
        ]
        for kind, cols, gpus in alone:
            constants = absent | {"OP": op, "y": None, "largest": None}
            tile = rows.rows_tile(cols, fused.ROWS_OF[op])
            constants |= _fused_constants(kind, tile, fused.BOTH, gpus)
            case = types.case(kernel, tile.num_warps, constants, arguments, architectures=gpus)
            yield f"{op}_{kind}_{cols}_{gpus[0]}", case
        for gpus in (WITH_ROOM, WITHOUT_ROOM, AMD_WITH_E4M3):
            both = fused.BOTH_WITH_ROWS_AHEAD if gpus == WITH_ROOM else fused.BOTH
            cols = fused.BOTH_MOST_COLUMNS
            tile = rows.rows_tile(cols, both.rows)
            constants = absent | {"OP": op} | _fused_constants("rowwise", tile, both, gpus)
            case = types.case(kernel, tile.num_warps, constants, arguments, architectures=gpus)
            yield f"{op}_both_{cols}_{gpus[0]}", case


def _fused_constants(
    kind: str, tile: rows.RowsTile, both: fused.BothConfig, gpus: tuple[Architecture, ...]
) -> dict[str, Any]:
    size, scales = fused.KINDS[kind]
    return {
        "SCALES": scales,
        "SIZE": size or tile.block,
        "PTX": gpus != AMD_WITH_E4M3,
        "STAGES": columns.stages_ahead(2 * tile.block * tile.rows, both.programs),
        "R": tile.rows,
        "BLOCK": tile.block,
    }
