"""Which kernels are compiled ahead of time, with which configuration, and for which GPUs."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from kernels.cast import blocks as cast_blocks
from kernels.cast import columns as cast_fp8_columns
from kernels.cast import fused as cast_fused
from kernels.cast import rows as cast_rows
from kernels.cast import tensorwise as cast_tensorwise
from kernels.cast.hopper import mx_by_threads as cast_mx_hopper
from kernels.cast.hopper import mx_by_tma as cast_mx_tiles
from kernels.cast.hopper import row_scales as cast_fp8_hopper
from kernels.common import configs
from kernels.common.configs import ARCHITECTURES
from kernels.common.fp8_scales import LARGEST
from kernels.streams import empty
from kernels.streams import memory as memory_stream
from tests.kernels.compile_case import Case
from tests.kernels.compile_gathered import gathered
from tests.kernels.compile_gemm_cases import gemms

WITH_E4M3 = tuple(arch for arch in ARCHITECTURES if arch not in configs.WITHOUT_E4M3)
PTX = tuple(arch for arch in WITH_E4M3 if isinstance(arch, int))
AMD = tuple(arch for arch in WITH_E4M3 if isinstance(arch, str))
ROOM = tuple(a for a in PTX if configs.SHARED_MEMORY_LIMIT[a] >= configs.ROOM_FOR_ROWS_AHEAD)
NO_ROOM = tuple(arch for arch in PTX if arch not in ROOM)
FROM_HOPPER_ON = tuple(
    arch for arch in ARCHITECTURES if arch not in configs.WITHOUT_TENSOR_MEMORY_UNIT
)
TYPES = {"e4m3": ("fp8e4nv", torch.float8_e4m3fn), "e5m2": ("fp8e5", torch.float8_e5m2)}
# (type of x, type of q); what holds for bf16 holds for fp16, which is as wide
PAIRS = (("bf16", "e4m3"), ("fp32", "e4m3"), ("bf16", "e5m2"))


def _streams() -> Iterator[tuple[str, Case]]:
    fp32 = {"src": "*fp32", "dst": "*fp32", "partial": "*fp32", "value": "fp32", "COUNT": "i32"}
    for name, how in {"read_sum": configs.READ, "fill": configs.FILL, "copy": configs.COPY}.items():
        kernel = getattr(memory_stream, f"_{name}_kernel")
        yield (
            name,
            Case(
                kernel=kernel,
                signature={k: v for k, v in fp32.items() if k in kernel.arg_names},
                constants={"BLOCK": how.block},
                num_warps=how.num_warps,
            ),
        )
    yield "empty", Case(kernel=empty._empty_kernel, wide=False)


def _casts() -> Iterator[tuple[str, Case]]:
    for source, kind in PAIRS:
        for name, case in _casts_of(source, kind):
            yield f"{name}-{source}-{kind}", case


def _casts_of(source: str, kind: str) -> Iterator[tuple[str, Case]]:
    arguments = {
        **dict.fromkeys(("COUNT", "ROWS", "COLS", "STRIDE", "STEPS", "PARTIALS"), "i32"),
        **dict.fromkeys(("partial", "largest"), "*i32"),
        "x": f"*{source}",
        **dict.fromkeys(("q", "q0", "q1"), f"*{TYPES[kind][0]}"),
        "scale": "*fp32",
    }
    how = {"LARGEST": LARGEST[TYPES[kind][1]], "POWER_OF_TWO": False}
    usable = WITH_E4M3 if kind == "e4m3" else ARCHITECTURES

    def case(kernel: Any, warps: int, constants: dict[str, Any], **more: Any) -> Case:
        constants = {k: v for k, v in (how | constants).items() if k in kernel.arg_names}
        types = arguments | more.pop("types", {})
        names = [name for name in kernel.arg_names if name in types and name not in constants]
        signature = {name: types[name] for name in names}
        return Case(
            kernel=kernel,
            signature=signature,
            constants=constants,
            num_warps=warps,
            **{"architectures": usable, **more},
        )

    amax, rows = configs.AMAX, configs.ROWS
    flat = {"STRIDED": False, "TAIL": True, "BLOCK": amax.block}
    if kind == "e5m2":  # reads only: the same for both types
        yield "amax", case(cast_tensorwise._amax_kernel, amax.num_warps, flat)
    for name, cast in (("cast", configs.CAST_MADE), ("cast_given", configs.CAST)):
        flat = {"STRIDED": False, "TAIL": True, "BLOCK": cast.block, "STEPS": cast.steps}
        flat |= {"MOST_PARTIALS": 2048, "GIVEN": name == "cast_given"}
        yield name, case(cast_tensorwise._cast_kernel, cast.num_warps, flat)
    for name, apart in (("few", False), ("few_apart", True)):
        few = {"STRIDED": apart, "BLOCK": configs.FEW.block}
        yield name, case(cast_tensorwise._few_kernel, configs.FEW.num_warps, few)
    for cols in (256, 4096, rows.largest_block):
        block, at_once, warps = cast_rows.rows_tile(cols, rows)
        yield f"rows_{cols}", case(cast_rows._rows_kernel, warps, {"BLOCK": block, "R": at_once})
        block, at_once, warps = cast_rows.rows_tile(cols, configs.BOTH_ROWS)
        both = cast_fp8_columns._rows_and_columns_kernel
        load_bytes = block * at_once * (4 if source == "fp32" else 2)
        stages = cast_fp8_columns.stages_of(load_bytes, configs.BOTH)
        tile = {"BLOCK": block, "R": at_once, "STAGES": stages}
        yield f"both_{cols}", case(both, warps, tile)
    long = {"BLOCK": rows.long_block}
    yield "long_rows", case(cast_rows._long_rows_kernel, rows.long_warps, long)
    yield from _columns_of(kind, case)
    yield from _blocks_of(source, kind, case)
    if (source, kind) == ("bf16", "e4m3"):
        yield from _fused_of(case)


def _columns_of(kind: str, case: Any) -> Iterator[tuple[str, Case]]:
    amax, plain = configs.COLUMNS_AMAX, configs.TRANSPOSE
    if kind == "e5m2":
        tile = {"BLOCK_M": amax.rows, "BLOCK_N": amax.cols}
        yield "columns_amax", case(cast_fp8_columns._columns_amax_kernel, amax.num_warps, tile)
    yield from _short_columns(case)
    tile = {"BLOCK_M": plain.rows, "BLOCK_N": plain.cols}
    partials = amax.wide_partials
    while partials <= amax.most_partials:
        constants = tile | {"PARTIALS": partials}
        kernel = cast_fp8_columns._transpose_kernel
        yield f"transpose_{partials}", case(kernel, plain.num_warps, constants)
        yield from _hopper_transpose(kind, case, partials)
        partials *= 2


def _hopper_transpose(kind: str, case: Any, partials: int) -> Iterator[tuple[str, Case]]:
    how = configs.HOPPER_TRANSPOSE
    for even in (True, False):
        built = case(
            cast_fp8_hopper._transpose_kernel,
            how.num_warps,
            {
                "PARTIALS": partials,
                "EVEN": even,
                "C": how.columns_per_thread,
                "GROUP": how.group,
                "num_warps": how.num_warps,
            },
            architectures=FROM_HOPPER_ON,
            without=("shared.b8", "shfl.sync.bfly"),
            gluon=True,
            wide=False,
        )
        built.signature["target"] = _descriptor(kind, how)
        yield f"hopper_transpose_{partials}{'' if even else '_ragged'}", built


def _short_columns(case: Any) -> Iterator[tuple[str, Case]]:
    """The fewest and the most rows; with the cast of rows, and where rows begin anywhere."""
    most = configs.SHORT_COLUMNS
    for rows in (1, 16, configs.FEW_ROWS, 512, most.most_rows, most.most_ragged_rows):
        how = configs.SHORT_FEW_ROWS if rows <= configs.FEW_ROWS else most
        block_m, block_n, warps = cast_fp8_columns.short_tile(rows, 8192, 132, how)
        tile = {"ALIGN": 16, "BLOCK_M": block_m, "BLOCK_N": block_n}
        block, at_once, warps_of_rows = cast_rows.rows_tile(2048, configs.ROWS)
        tile |= {"R": at_once, "BLOCK": block}
        kernel = cast_fp8_columns._short_columns_kernel
        types = {"types": {"q0": "*fp8e4nv", "scale0": "*fp32"}}
        # AMD takes two passes, as others than Hopper do of so many rows
        gpus: dict[str, Any] = {"architectures": (90,) if rows > how.most_rows else PTX}
        gpus["wide"] = rows > configs.FEW_ROWS  # few elements per thread
        columns = {"q0": None, "scale0": None}
        yield f"short_columns_{rows}", case(kernel, warps, tile | columns, **types, **gpus)
        odd = gpus | {"odd_sizes": True, "wide": False}
        yield (
            f"short_columns_{rows}_odd",
            case(kernel, warps, tile | columns | {"ALIGN": 1}, **types, **odd),
        )
        yield f"short_both_{rows}", case(kernel, max(warps, warps_of_rows), tile, **types, **gpus)


def _descriptor(kind: str, how: configs.HopperConfig) -> str:
    block = [32 * how.columns_per_thread, 32 * how.num_warps]
    return f"tensordesc<{TYPES[kind][0]}{block},{cast_fp8_hopper.tile_layout(how.num_warps)!r}>"


def _blocks_of(source: str, kind: str, case: Any) -> Iterator[tuple[str, Case]]:
    """e5m2 only where there is no e4m3, fp32 with one rounding: many cases compile for minutes."""
    rows, tile = configs.BLOCKS, configs.BLOCKS_TRANSPOSED
    usable = {"architectures": tuple(configs.WITHOUT_E4M3)} if kind == "e5m2" else {}
    kinds = ((32, "floor"), (32, "ceil"), (128, "fp32"))
    for size, scales in kinds if source == "bf16" else kinds[::2]:
        pointer = "*fp32" if scales == "fp32" else "*u8"
        how = {"SCALES": scales, "SIZE": size}
        more = {"types": {"scale0": pointer, "scale1": pointer}} | usable
        for name, cut in (("", rows), ("_small", configs.BLOCKS_SMALL)):
            yield f"blocks_{scales}{name}", _blocks(case, "rows", how, cut, more)
            yield f"blocks_{scales}{name}_odd", _blocks(case, "rows", how, cut, more, odd=True)
        yield f"blocks_{scales}_dim1", _blocks(case, "columns", how, tile, more)
        if size == cast_blocks.MX_BLOCK:
            both = configs.BLOCKS_BOTH
            yield f"blocks_{scales}_both", _blocks(case, "both", how, both, more)
        if size == cast_blocks.MX_BLOCK and kind == "e4m3":
            yield from _mx_hopper(kind, case, scales)
            if source == "bf16":
                yield from _mx_tiles(kind, case, scales)
            small = configs.BLOCKS_TRANSPOSED_SMALL
            yield f"blocks_{scales}_small_dim1", _blocks(case, "columns", how, small, more)
            yield f"blocks_{scales}_small_both", _blocks(case, "both", how, small, more)
            few = configs.BLOCKS_FEW_ROWS
            yield f"blocks_{scales}_few", _blocks(case, "both", how, few, more)
            one = {"wide": False}
            yield (
                f"blocks_{scales}_one",
                _blocks(case, "both", how, replace(few, rows=1), more | one),
            )
    square = {"SCALES": "fp32", "SIZE": cast_blocks.BLOCK}
    yield "squares", case(cast_blocks._squares_kernel, configs.SQUARES_WARPS, square, **usable)


def _blocks(
    case: Any,
    along: str,
    how: dict[str, Any],
    tile: Any,
    more: dict[str, Any],
    *,
    odd: bool = False,
) -> Case:
    if along == "rows":
        constants = {**how, "ALIGN": 16, "COUNT": tile.block // how["SIZE"], "LONG": True}
        types = more["types"] | {"scale": more["types"]["scale0"]}
        kernel = cast_blocks._rows_of_blocks_kernel
        if odd:
            constants["ALIGN"] = 1
            more = more | {"odd_sizes": True, "wide": False}
        along_rows: Case = case(kernel, tile.num_warps, constants, **{**more, "types": types})
        return along_rows
    constants = {
        **how,
        **dict.fromkeys(("q0", "scale0") if along == "columns" else ()),
        "DOWN": min(how["SIZE"], tile.rows),
        "DIM0": along == "both",
        "ALIGN": 16,
        "BLOCK_M": tile.rows,
        "BLOCK_N": tile.cols,
    }
    built: Case = case(cast_blocks._blocks_kernel, tile.num_warps, constants, **more)
    return built


def _fused_of(case: Any) -> Iterator[tuple[str, Case]]:
    used = {"rms_norm": {"weight"}, "layer_norm": {"weight", "bias"}}
    used |= {"silu_mul": {"other"}, "sigmoid_grad": {"other"}}
    types = dict.fromkeys(("other", "weight", "bias", "y"), "*bf16") | {
        "OTHER_STRIDE": "i32",
        "X_STRIDE": "i32",
        "eps": "fp32",
    }
    for op in (*used, "sigmoid"):
        longest = configs.FUSED_MOST_COLUMNS[op]
        for kind, cols, y, usable in (
            *(("rowwise", n, None, gpus) for n in (4096, longest) for gpus in (PTX, AMD)),
            ("mxfp8_floor", longest, None, PTX),
            *([("blockwise_1x128", longest, None, PTX)] if op == "rms_norm" else []),
            *(("rowwise", configs.BOTH_MOST_COLUMNS, "both", g) for g in (ROOM, NO_ROOM, AMD)),
        ):
            size, scales = cast_fused.KINDS[kind]
            for_both, persistent = configs.FUSED_BOTH[usable == ROOM]
            block, at_once, warps = cast_rows.rows_tile(cols, for_both if y else configs.FUSED[op])
            constants = {
                **dict.fromkeys({"other", "weight", "bias"} - used.get(op, set())),
                "OP": op,
                "SCALES": scales,
                "SIZE": size or block,
                **({"y": None, "largest": None} if y is None else {}),
                "PTX": usable != AMD,
                "STAGES": cast_fp8_columns.stages_of(2 * block * at_once, persistent),
                "R": at_once,
                "BLOCK": block,
            }
            kernel = cast_fused._fused_kernel
            built = case(kernel, warps, constants, types=types, architectures=usable)
            yield f"{op}_{y or kind}_{cols}_{usable[0]}", built


def _mx_hopper(kind: str, case: Any, rounding: str) -> Iterator[tuple[str, Case]]:
    for both in (False, True):
        how = configs.HOPPER_MX_BOTH if both else configs.HOPPER_MX
        for even in (True, False):
            constants = {
                **dict.fromkeys(() if both else ("q0", "scale0")),
                "CEIL": rounding == "ceil",
                "BOTH": both,
                "EVEN": even,
                "C": how.columns_per_thread,
                "GROUP": how.group,
                "num_warps": how.num_warps,
            }
            name = f"hopper_mx_{rounding}{'_both' if both else ''}{'' if even else '_ragged'}"
            built = case(
                cast_mx_hopper._mx_kernel,
                how.num_warps,
                constants,
                types={"scale0": "*u8", "scale1": "*u8", "target": _descriptor(kind, how)},
                architectures=FROM_HOPPER_ON,
                without=() if both else ("shared.b8",),
                gluon=True,
                wide=both,
            )
            yield name, built


def _mx_tiles(kind: str, case: Any, rounding: str) -> Iterator[tuple[str, Case]]:
    for both in (False, True):
        how = configs.TILES_MX_BOTH if both else configs.TILES_MX
        block = [32 * how.num_warps, 32 * how.columns_per_thread]
        source = f"tensordesc<bf16{block},{cast_mx_tiles.source_layout(how)!r}>"
        for even in (True, False):
            constants = {
                **dict.fromkeys(() if both else ("q0", "scale0")),
                "CEIL": rounding == "ceil",
                "BOTH": both,
                "EVEN": even,
                "C": how.columns_per_thread,
                "GROUP": how.group,
                "num_warps": how.num_warps,
            }
            name = f"tiles_mx_{rounding}{'_both' if both else ''}{'' if even else '_ragged'}"
            types = {"x": source, "scale0": "*u8", "scale1": "*u8"}
            types["target"] = _descriptor(kind, how)
            yield (
                name,
                case(
                    cast_mx_tiles._tiles_kernel,
                    how.num_warps,
                    constants,
                    types=types,
                    architectures=FROM_HOPPER_ON,
                    gluon=True,
                    wide=both,
                ),
            )


CASES: dict[str, Case] = dict((*_streams(), *_casts(), *gemms(), *gathered()))
