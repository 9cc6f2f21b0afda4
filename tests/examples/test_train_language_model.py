"""The example trains a tiny model on a CPU in every recipe, and fails where a loss disagrees."""

import csv
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest
import torch

from examples import train_language_model as example
from kernels.linear.layer import Float8Linear
from kernels.linear.recipes import NAMED

TINY = ["--device", "cpu", "--layers", "1", "--width", "64", "--mlp", "64"]
TINY += ["--sequence", "32", "--batch", "4", "--steps", "20"]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """The example takes one thread, and is one of many tests here."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def losses_in(path: Path) -> dict[str, list[float]]:
    losses: dict[str, list[float]] = {}
    for row in csv.DictReader(path.read_text().splitlines()):
        losses.setdefault(row["recipe"], []).append(float(row["loss"]))
    return losses


def test_recipes_learn_alike_side_by_side(tmp_path: Path, capsys: Any) -> None:
    recipes = ["bf16", "axiswise", "tensorwise"]
    out = tmp_path / "curves.csv"
    assert example.main([*TINY, "--recipe", *recipes, "--out", str(out)]) == 0
    losses = losses_in(out)
    assert list(losses) == recipes
    for curve in losses.values():
        assert len(curve) == 20
        assert curve[-1] < curve[0] - 1, "it learns"
        assert curve == pytest.approx(losses["bf16"], abs=0.1)
    assert losses["axiswise"] != losses["bf16"]
    printed = capsys.readouterr().out
    assert "loss by step   bf16  axiswise  tensorwise\n" in printed
    assert "compare losses here, not times" in printed


@pytest.mark.gpu
@pytest.mark.slow
def test_on_a_gpu_recipes_learn_alike_compiled(tmp_path: Path, capsys: Any) -> None:
    size = ["--layers", "1", "--width", "256", "--mlp", "512", "--sequence", "128", "--batch", "8"]
    recipes = ["bf16", "axiswise", "tensorwise", "blockwise"]
    out = tmp_path / "curves.csv"
    assert example.main([*size, "--steps", "40", "--recipe", *recipes, "--out", str(out)]) == 0
    for curve in losses_in(out).values():
        assert curve[-1] < curve[0] - 1
    assert "compare losses here" not in capsys.readouterr().out


def test_equal_seeds_give_equal_losses_and_others_do_not(tmp_path: Path) -> None:
    curves = []
    for number, seed in enumerate(("3", "3", "4")):
        out = tmp_path / f"{number}.csv"
        arguments = [*TINY, "--steps", "4", "--recipe", "bf16", "--seed", seed]
        example.main([*arguments, "--out", str(out)])
        curves.append(losses_in(out)["bf16"])
    assert curves[0] == curves[1]
    assert curves[0] != curves[2]


def test_a_recipe_that_does_not_learn_fails(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def frozen(model: torch.nn.Module, recipe: str, _saves: str) -> torch.nn.Module:
        if recipe != "bf16":
            for parameter in model.parameters():
                parameter.register_hook(torch.zeros_like)
        return model

    monkeypatch.setattr(example, "converted", frozen)
    assert example.main([*TINY, "--recipe", "bf16", "axiswise"]) == 1
    assert "axiswise: its validation loss is" in capsys.readouterr().err


def test_a_loss_that_is_no_number_disagrees() -> None:
    first = example.Run(recipe="bf16", validation=2.0)
    runs = [first, example.Run(recipe="a"), example.Run(recipe="b", validation=2.04)]
    (wrong,) = example.disagreements(runs, 0.05)
    assert wrong == "a: its validation loss is nan; wanted at most 2.050, 0.05 above bf16"


def test_all_linears_but_the_head_are_converted() -> None:
    model = example.converted(example.LanguageModel(example.TINY), "tensorwise", "casts")
    linears = {n: type(m) for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    assert [name for name, kind in linears.items() if kind is not Float8Linear] == ["head"]
    assert len(linears) == 4 * example.TINY.layers + 1


def test_a_byte_sees_those_before_it_alone() -> None:
    model = example.LanguageModel(example.TINY).eval()
    text = torch.arange(64)[None]
    other = text.clone()
    other[0, 40] = 200
    with torch.no_grad():
        changed = (model(text) != model(other)).any(dim=-1)[0]
    assert changed.nonzero().flatten().tolist() == list(range(40, 64))


def test_batches_are_passages_of_pythons_own_text() -> None:
    text = example.python_text()
    assert topics["assert"].encode() in bytes(text.tolist())
    assert len(text) > 1 << 20
    (batch,) = example.batches(text, example.TINY, 1, seed=0)
    assert batch.shape == (example.TINY.batch, example.TINY.sequence + 1)
    assert bytes(batch[0].tolist()) in bytes(text.tolist())


def test_the_time_of_a_run_is_the_median_of_its_last_half_and_its_curves_are_drawn(
    tmp_path: Path,
) -> None:
    steps = [9.0, 9.0, 9.0, 1.0, 2.0, 3.0]
    run = example.Run(recipe="bf16", losses=[3.0] * 6, step_s=steps)
    assert run.seconds == 2.0
    example.write_curves(tmp_path / "curves.png", [run])
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_every_recipe_is_taken_and_an_unknown_one_is_answered_with_the_nearest(capsys: Any) -> None:
    every = [*NAMED, *example.TORCHAO, "bf16"]
    assert example.parsed(["--recipe", *every]).recipe == every
    with pytest.raises(SystemExit):
        example.parsed(["--recipe", "axiswize"])
    assert "did you mean axiswise?" in capsys.readouterr().err
