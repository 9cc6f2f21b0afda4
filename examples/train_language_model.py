"""Train a small language model in bf16 and in float8, and compare losses and times per step.

    python examples/train_language_model.py --recipe bf16 axiswise tensorwise

The text comes with Python: the topics of pydoc's help and the modules of the standard library, as
bytes. Every recipe starts from the same weights and sees the same batches; all linears but the head
are replaced by kernels.linear.layer.Float8Linear. On a GPU the model has four layers of 2048: 400
steps of tens of milliseconds and a compilation for each recipe. On a CPU a tiny one takes
seconds, with the values of the fp8 kernels but not their speed.
"""

import argparse
import csv
import math
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from pydoc_data.topics import topics
from statistics import fmean, median

import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kernels.linear.layer import SAVED, convert_linears
from kernels.linear.recipes import NAMED, recipe_of

BYTES = 256  # the vocabulary
TORCHAO = ("torchao_tensorwise", "torchao_rowwise", "torchao_rowwise_with_gw_hp")
HEAD_DIM = 64
HELD_OUT = 0.05  # the last part of the text, for validation
COUNTED = 0.5  # the last part of the steps, whose times count: the first ones compile and warm up
SHOWN = 10  # points of a curve in the table


@dataclass(frozen=True, kw_only=True)
class Size:
    """The model, and what a step is: `batch` sequences of `sequence` bytes."""

    layers: int
    width: int
    mlp: int
    sequence: int
    batch: int
    steps: int
    learning_rate: float


ON_GPU = Size(layers=4, width=2048, mlp=8192, sequence=2048, batch=8, steps=400, learning_rate=3e-4)
TINY = Size(layers=2, width=128, mlp=256, sequence=64, batch=8, steps=100, learning_rate=3e-3)


@dataclass(kw_only=True)
class Run:
    """What training with one recipe gave.

    losses        of every step, nats per byte
    validation    loss on text that was held out
    step_s        seconds of every step, from the end of the one before
    peak_bytes    most device memory; 0 on a CPU
    """

    recipe: str
    losses: list[float] = field(default_factory=list)
    validation: float = math.nan
    step_s: list[float] = field(default_factory=list)
    peak_bytes: int = 0

    @property
    def seconds(self) -> float:
        """Median time of the steps that count."""
        return median(self.step_s[int(len(self.step_s) * (1 - COUNTED)) :])


def python_text() -> torch.Tensor:
    """The bytes of pydoc's topics and of the modules of the standard library, about 6 MB."""
    folder = Path(sysconfig.get_path("stdlib"))
    texts = [topics[name].encode() for name in sorted(topics)]
    texts += [path.read_bytes() for path in sorted(folder.glob("*.py"))]
    return torch.frombuffer(bytearray(b"\n\n".join(texts)), dtype=torch.uint8)


class Attention(torch.nn.Module):
    """Causal attention with rotary positions (Su et al. 2021, arXiv 2104.09864)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, rotary: torch.Tensor) -> torch.Tensor:
        """x [batch, sequence, width], rotary [2, sequence, HEAD_DIM / 2]."""
        heads = self.qkv(x).unflatten(-1, (3, -1, HEAD_DIM)).permute(2, 0, 3, 1, 4)
        q, k = (_turned(part, rotary) for part in heads[:2])
        y = functional.scaled_dot_product_attention(q, k, heads[2], is_causal=True)
        projected: torch.Tensor = self.out(y.transpose(1, 2).flatten(2))
        return projected


def _turned(x: torch.Tensor, rotary: torch.Tensor) -> torch.Tensor:
    cosine, sine = rotary
    first, second = x.float().chunk(2, dim=-1)
    halves = (first * cosine - second * sine, second * cosine + first * sine)
    return torch.cat(halves, dim=-1).to(x.dtype)


class Layer(torch.nn.Module):
    """Attention and SwiGLU (Shazeer 2020, arXiv 2002.05202), each behind a norm."""

    def __init__(self, width: int, mlp: int) -> None:
        super().__init__()
        self.attention, self.attention_norm = Attention(width), torch.nn.RMSNorm(width)
        self.mlp_norm = torch.nn.RMSNorm(width)
        self.gate_up = torch.nn.Linear(width, 2 * mlp, bias=False)
        self.down = torch.nn.Linear(mlp, width, bias=False)

    def forward(self, x: torch.Tensor, rotary: torch.Tensor) -> torch.Tensor:
        """x [batch, sequence, width]."""
        x = x + self.attention(self.attention_norm(x), rotary)
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        y: torch.Tensor = x + self.down(functional.silu(gate) * up)
        return y


class LanguageModel(torch.nn.Module):
    """Bytes in, logits of the next byte out."""

    rotary: torch.Tensor

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(BYTES, size.width)
        self.layers = torch.nn.ModuleList(Layer(size.width, size.mlp) for _ in range(size.layers))
        self.norm = torch.nn.RMSNorm(size.width)
        self.head = torch.nn.Linear(size.width, BYTES, bias=False)
        turns = 10_000.0 ** -(torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
        angles = torch.outer(torch.arange(size.sequence), turns)
        self.register_buffer("rotary", torch.stack((angles.cos(), angles.sin())))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """text [batch, sequence] -> [batch, sequence, BYTES]."""
        x = self.embedding(text)
        for layer in self.layers:
            x = layer(x, self.rotary)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


def converted(model: torch.nn.Module, recipe: str, saves: str) -> torch.nn.Module:
    """The model with float8 linears, but for its head, which is small and sensitive."""
    if recipe == "bf16":
        return model
    if recipe not in TORCHAO:
        return convert_linears(
            model, recipe, saves=saves, should_convert=lambda name, _: name != "head"
        )
    from torchao.float8 import (  # noqa: PLC0415 (optional)
        Float8LinearConfig,
        convert_to_float8_training,
    )

    config = Float8LinearConfig.from_recipe_name(recipe.removeprefix("torchao_"))
    return convert_to_float8_training(
        model, config=config, module_filter_fn=lambda _, name: name != "head"
    )


def batches(text: torch.Tensor, size: Size, count: int, seed: int) -> Iterator[torch.Tensor]:
    """`count` batches [batch, sequence + 1] from random places of a text on the device."""
    generator = torch.Generator().manual_seed(seed)
    window = torch.arange(size.sequence + 1)
    for _ in range(count):
        starts = torch.randint(len(text) - size.sequence, (size.batch, 1), generator=generator)
        yield text[(starts + window).to(text.device)].long()


def loss_of(model: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor) -> torch.Tensor:
    """Mean nats per byte of the next bytes of a batch."""
    with torch.autocast(batch.device.type, torch.bfloat16):
        logits = model(batch[:, :-1])
    return functional.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())


def train(
    recipe: str,
    size: Size,
    device: torch.device,
    seed: int,
    *,
    compiles: bool,
    saves: str = SAVED[0],
) -> Run:
    """Train a model from the start: fp32 weights, bf16 activations, AdamW, cosine schedule.

    saves: what our linears keep for the backward pass, one of kernels.linear.layer.SAVED.
    """
    text = python_text().to(device)
    split = int(len(text) * (1 - HELD_OUT))
    torch.manual_seed(seed)
    with torch.device(device):
        model = converted(LanguageModel(size), recipe, saves)
    step_model: Callable[[torch.Tensor], torch.Tensor] = model
    if compiles:
        step_model = torch.compile(model)
    optimizer = torch.optim.AdamW(
        model.parameters(), size.learning_rate, betas=(0.9, 0.95), fused=device.type == "cuda"
    )
    rate = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, size.learning_rate, total_steps=size.steps, pct_start=0.1, cycle_momentum=False
    )
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    run, losses, clock = Run(recipe=recipe), [], _Clock(device)
    for batch in batches(text[:split], size, size.steps, seed):
        loss = loss_of(step_model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        optimizer.zero_grad()
        losses.append(loss.detach())  # to read it here would make the host wait for the device
        clock.mark()
    run.step_s = clock.seconds()
    run.losses = torch.stack(losses).tolist()
    if device.type == "cuda":
        run.peak_bytes = torch.cuda.max_memory_allocated(device)
    with torch.no_grad():
        held_out = batches(text[split:], size, 20, seed)
        run.validation = fmean(float(loss_of(step_model, batch)) for batch in held_out)
    return run


class _Clock:
    """Times between marks: by events on a GPU, so that nobody waits, by the host on a CPU."""

    def __init__(self, device: torch.device) -> None:
        self._is_gpu = device.type == "cuda"
        self._marks: list[torch.cuda.Event] = []
        self._times: list[float] = []
        self.mark()

    def mark(self) -> None:
        """End one step and begin the next."""
        if self._is_gpu:
            self._marks.append(torch.cuda.Event(enable_timing=True))
            self._marks[-1].record()
        self._times.append(time.perf_counter())

    def seconds(self) -> list[float]:
        """Seconds of every step; waits for the device."""
        if self._is_gpu:
            torch.cuda.synchronize()
            pairs = zip(self._marks, self._marks[1:], strict=False)
            return [first.elapsed_time(last) / 1e3 for first, last in pairs]
        return [last - first for first, last in zip(self._times, self._times[1:], strict=False)]


def curve_table(runs: Sequence[Run]) -> str:
    """The loss by step, each the mean of the steps since the one shown before."""
    steps = len(runs[0].losses)
    ends = sorted({round(steps * part / SHOWN) for part in range(1, SHOWN + 1)} - {0})
    rows = [["loss by step", *(run.recipe for run in runs)]]
    for first, end in zip([0, *ends], ends, strict=False):
        rows.append([str(end), *(f"{fmean(run.losses[first:end]):.3f}" for run in runs)])
    return _columns(rows)


def summary_table(runs: Sequence[Run], bytes_per_step: int) -> str:
    """Validation loss, time and memory of every recipe, beside the first one."""
    first = runs[0]
    rows = [["", "validation", "less first", "ms/step", "speed-up", "bytes/s", "peak GB"]]
    rows += [
        [
            run.recipe,
            f"{run.validation:.3f}",
            f"{run.validation - first.validation:+.3f}",
            f"{1e3 * run.seconds:.2f}",
            f"{first.seconds / run.seconds:.2f}x",
            f"{bytes_per_step / run.seconds:,.0f}",
            f"{run.peak_bytes / 1e9:.2f}" if run.peak_bytes else "-",
        ]
        for run in runs
    ]
    return _columns(rows)


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


def write_curves(path: Path, runs: Sequence[Run]) -> None:
    """Loss and seconds of every step, as CSV or, by the name of the file, as a picture."""
    if path.suffix == ".csv":
        with path.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["recipe", "step", "loss", "seconds"])
            for run in runs:
                pairs = zip(run.losses, run.step_s, strict=True)
                writer.writerows((run.recipe, step, *pair) for step, pair in enumerate(pairs, 1))
        return
    # Of the study's environment: without a picture the example needs torch alone.
    import seaborn as sns  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    losses, times = figure.subplots(1, 2)
    sns.lineplot({run.recipe: run.losses for run in runs}, dashes=False, linewidth=1, ax=losses)
    losses.set(xlabel="step", ylabel="nats per byte", yscale="log")
    sns.barplot({run.recipe: [1e3 * run.seconds] for run in runs}, ax=times)
    times.set(ylabel="ms per step")
    figure.savefig(path, dpi=150)


def disagreements(runs: Sequence[Run], tolerance: float) -> list[str]:
    """What is wrong with runs: no number, or a validation loss above that of the first."""
    most = runs[0].validation + tolerance
    return [
        f"{run.recipe}: its validation loss is {run.validation:.3f}; wanted at most {most:.3f}, "
        f"{tolerance:g} above {runs[0].recipe}"
        for run in runs
        if not run.validation <= most  # true for NaN too
    ]


def _recipe(name: str) -> str:
    if name != "bf16" and name not in TORCHAO:
        try:
            recipe_of(name)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return name


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; sizes that it leaves out are None."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--recipe", nargs="+", type=_recipe, default=["bf16", "axiswise"], metavar="RECIPE",
        help=f"bf16, {', '.join(name for name in NAMED if name != 'high_precision')}, one written "
        f"as a line (kernels/linear/recipes.py), {', '.join(TORCHAO)}; the others are compared "
        "with the first (default: bf16 axiswise)",
    )  # fmt: skip
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name, text in (
        ("steps", "how many batches to train on"),
        ("layers", "of attention and SwiGLU"),
        ("width", f"of the model, a multiple of {HEAD_DIM}"),
        ("mlp", "width of the SwiGLU"),
        ("sequence", "bytes of a sequence"),
        ("batch", "sequences of a step"),
    ):
        gpu, cpu = getattr(ON_GPU, name), getattr(TINY, name)
        parser.add_argument(f"--{name}", type=int, help=f"{text} (GPU: {gpu}, CPU: {cpu})")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches (default: 0)")
    parser.add_argument(
        "--no-compile", action="store_true", help="without torch.compile, as on a CPU"
    )
    parser.add_argument(
        "--saves", choices=SAVED, default=SAVED[0],
        help="what our linears keep for the backward pass: fp8 casts of what they read, or inputs "
        f"themselves, which torch.compile can compute again (default: {SAVED[0]})",
    )  # fmt: skip
    parser.add_argument(
        "--tolerance", type=float, default=0.05, metavar="NATS",
        help="validation loss above the first recipe from which it fails (default: 0.05)",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="curves as .csv, or as a picture: .png, .svg"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train with every recipe and print tables; 1 where a loss disagrees."""
    options = parsed(arguments)
    device = torch.device(options.device)
    size = TINY if device.type == "cpu" else ON_GPU
    given = {name: getattr(options, name, None) for name in size.__dataclass_fields__}
    size = replace(size, **{name: value for name, value in given.items() if value is not None})
    compiles = device.type != "cpu" and not options.no_compile
    if device.type == "cpu":
        torch.set_num_threads(1)  # such small tensors gain nothing; on two busy cores they lose 60x
    runs = []
    for recipe in options.recipe:
        print(f"training with {recipe} ...", file=sys.stderr, flush=True)
        runs.append(
            train(recipe, size, device, options.seed, compiles=compiles, saves=options.saves)
        )
        torch.compiler.reset()
    print(curve_table(runs), summary_table(runs, size.batch * size.sequence), sep="\n\n")
    if device.type == "cpu":
        print("\nA CPU computes the values of fp8 kernels slowly: compare losses here, not times.")
    if options.out:
        write_curves(options.out, runs)
    wrong = disagreements(runs, options.tolerance)
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
