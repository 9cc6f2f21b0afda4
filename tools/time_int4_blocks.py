"""Time blocks of the int4 product for few tokens, from which rows of kernels.int4.rule were filled.

`python -m tools.time_int4_blocks OUT.csv` on an sm_90 GPU: configurations of kernels.int4.direct
beside blocks of kernels.int4.staged, launched plainly and chained, for 1 to 16 tokens of weights
drawn by --seed. Columns are those of docs/kernels/int4_blocks.csv, but for its number of the card.
A thousand times take three minutes, of which compiling takes one; --seconds stops between shapes.
"""

import argparse
import csv
import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import torch

from kernels.int4 import rule
from kernels.int4.gemm import int4_gemm
from kernels.int4.packing import Int4Weights
from kernels.int4.rule import Int4Config, Int4DirectConfig, Int4StagedConfig, WeightSizes
from roofcal.core.machine.cores import usable_cores

COLUMNS: Final = (
    *("tokens", "rows", "k", "group", "chained", "kernel", "block_rows", "depth", "split"),
    *("warps", "stages", "unroll", "token_tile", "matrix", "us"),
)
_K: Final = (384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 7168, 8192, 14336)
_ROWS: Final = (512, 768, 1536, 2304, 3456, 4096, 5120, 7168, 9216, 11776, 14336, 19712, 28416)
_TOKENS: Final = (1, 2, 4, 6, 8, 9, 12, 16)
_MOST_WEIGHTS: Final = 1 << 27
_CACHE_BYTES: Final = 110e6  # copies of the weights that rotate are twice an H100's L2 cache
_MOST_COPIES: Final = 1100  # of the smallest product
_MOST_COMPILERS: Final = 16  # each holds half a GB of the GPU
_TURN_MS: Final = 6.0
_TURNS: Final = 5
# (tiles, depth) and (split, warps) of the direct kernel, by its tile of tokens.
_TILES: Final = {8: ((1, 1), (2, 2), (4, 2)), 16: ((1, 1), (2, 2), (4, 4), (7, 4), (7, 7))}
_CUTS: Final = tuple(itertools.product((1, 2, 4, 8), (1, 2, 4, 8)))


@dataclass(frozen=True, slots=True)
class Product:
    """A product, and how it is launched."""

    tokens: int
    rows: int
    k: int
    group: int
    chained: bool = False

    @property
    def sizes(self) -> WeightSizes:
        """What the rule asks of its weights."""
        return WeightSizes(rows=self.rows, k=self.k, group=self.group)


def products(draw: random.Random, count: int) -> Iterator[Product]:
    """Drawn products, each plain and chained."""
    for _ in range(count):
        k = draw.choice(_K)
        rows = draw.choice([n for n in _ROWS if n * k <= _MOST_WEIGHTS])
        tokens, group = draw.choice(_TOKENS), draw.choice((128, 128, 128, 64, 32))
        for chained in (False, True):
            yield Product(tokens, rows, k, group, chained)


def configurations(product: Product) -> list[Int4Config]:
    """Those of the direct kernel that fit, four staged ones and what the rule takes."""
    tile = 8 if product.tokens <= 8 else 16
    direct = [
        Int4DirectConfig(
            row_tiles=tiles, depth=depth, token_tile=tile, split=split, num_warps=warps
        )
        for (tiles, depth), (split, warps) in itertools.product(_TILES[tile], _CUTS)
        if product.group >= 128 or depth == 1 or tile == 16  # others spill
    ]
    rows = [*rule.RULES[rule.PLAIN_LAUNCHES], *rule.RULES[rule.CHAINED_LAUNCHES]]
    staged = {
        config: None
        for row in rows
        for config in row.configs + row.otherwise
        if isinstance(config, Int4StagedConfig) and config.token_tile == tile
    }
    fitting = [config for config in staged if config.fits(product.sizes)][:4]
    named: list[Int4Config] = [*direct, *fitting, chosen_by_rule(product)]
    return [config for config in dict.fromkeys(named) if config.fits(product.sizes)]


def chosen_by_rule(product: Product) -> Int4Config:
    """What the rule takes for a product."""
    return rule.direct_or_staged(product.sizes, product.tokens, chained=product.chained)


def made_up_weights(product: Product, copies: int) -> list[Int4Weights]:
    """Packed weights of random bits with scales of about 0.02, as many times."""
    tiles = product.sizes.padded_rows // 16
    packed = torch.randint(
        0, 256, (copies, tiles, product.k // 128, 1024), dtype=torch.uint8, device="cuda"
    )
    scales = torch.rand(copies, tiles, product.k // product.group, 16, device="cuda")
    scales = ((scales + 0.5) * 0.02).bfloat16()
    return [
        Int4Weights(
            packed=packed[copy],
            scales=scales[copy],
            zeros=None,
            rows=product.rows,
            k=product.k,
            group=product.group,
        )
        for copy in range(copies)
    ]


def made_up_tokens(product: Product) -> torch.Tensor:
    """Activations [tokens, k] of a normal distribution."""
    return torch.randn(product.tokens, product.k, device="cuda", dtype=torch.bfloat16)


def compile_some(tasks: Sequence[tuple[Product, Int4Config]]) -> None:
    """Run each once, which fills Triton's cache for the process that measures."""
    for product, config in tasks:
        weights = made_up_weights(product, 1)[0]
        int4_gemm(made_up_tokens(product), weights, chained=product.chained, config=config)
    torch.cuda.synchronize()


def microseconds(
    product: Product, config: Int4Config, x: torch.Tensor, weights: Sequence[Int4Weights]
) -> float:
    """The median of some turns of a graph over all copies of the weights."""
    launches = max(len(weights), 24)

    def launch_all() -> None:
        for number in range(launches):
            copy = weights[number % len(weights)]
            int4_gemm(x, copy, chained=product.chained, config=config)

    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch has no types here
    start, end = (
        torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        for _ in range(2)
    )
    graph = torch.cuda.CUDAGraph()

    def turn_ms(replays: int) -> float:
        start.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        stream.synchronize()
        return float(start.elapsed_time(end)) / replays

    with torch.cuda.stream(stream):
        launch_all()
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            launch_all()
        turn_ms(1)
        replays = max(1, int(_TURN_MS / max(turn_ms(1), 0.02)))
        turns = sorted(turn_ms(replays) for _ in range(_TURNS))
    return turns[_TURNS // 2] * 1e3 / launches


def row_of(product: Product, config: Int4Config, us: float) -> list[object]:
    """A row of the table."""
    is_direct = isinstance(config, Int4DirectConfig)
    of_ring = [getattr(config, name, "") for name in ("stages", "unroll")]
    return [
        *(product.tokens, product.rows, product.k, product.group, int(product.chained)),
        *("direct" if is_direct else "staged", config.block_rows, getattr(config, "depth", "")),
        *(config.split, config.num_warps, *of_ring, config.token_tile),
        *(getattr(config, "matrix", ""), round(us, 3)),
    ]


def main() -> None:
    """Compile with all cores, then time shape by shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shapes", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=900.0)
    arguments = parser.parse_args()
    started = time.monotonic()
    drawn = list(products(random.Random(arguments.seed), arguments.shapes))
    tasks = [(product, config) for product in drawn for config in configurations(product)]
    print(f"{len(tasks)} times of {arguments.shapes} shapes", flush=True)
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        sys.exit("error: this machine has no GPU of compute capability 9.0 (H100, H200)")
    chunks = [tasks[number::128] for number in range(128)]
    compilers = min(_MOST_COMPILERS, usable_cores())
    with ProcessPoolExecutor(compilers, mp_context=get_context("spawn")) as pool:
        list(pool.map(compile_some, chunks))
    with arguments.out.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for product, of_product in itertools.groupby(tasks, key=lambda task: task[0]):
            if time.monotonic() - started > arguments.seconds:
                print(f"stopped after {arguments.seconds:.0f} s")
                return
            copies = int(_CACHE_BYTES / (product.rows * product.k * 0.53)) + 1
            weights = made_up_weights(product, min(_MOST_COPIES, max(2, copies)))
            x = made_up_tokens(product)
            for _, config in of_product:
                table.writerow(row_of(product, config, microseconds(product, config, x, weights)))
            file.flush()


if __name__ == "__main__":
    main()
