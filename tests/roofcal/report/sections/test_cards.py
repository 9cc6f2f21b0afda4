"""Cards of one model beside each other: planted differences, other code, what is left out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofcal.points.run import Run, load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.cards import own_card_sentence
from tests.roofcal.report.chapters import Shown, answer_of, plain, shown_of
from tests.roofcal.report.synthetic import GPU, MadeUpRun, product, stream, true_seconds

SIDES = tuple(1024 + 128 * step for step in range(12))
UUID = "GPU-2222222{}-6d3e-531b-b573-64ef40fcc7ee"
SECOND, THIRD = "GPU-22222222", "GPU-22222223"


def run_of_card(root: Path, uuid: str, slower: float, code: str = "a", **changes: Any) -> Path:
    """Products by cuBLAS, our streams and two fp8 products; products take `slower` the time."""
    run = MadeUpRun(replace(GPU, **changes.pop("environment", {})))
    points = [product(side, side, side) for side in SIDES]
    points += [product(side, side, side, "fp8_tensorwise") for side in SIDES[:2]]
    for point in points:
        run.measure(point, slower * true_seconds(point))
    for side in SIDES:
        run.measure(stream(side << 16))
    card: dict[str, Any] = {"device_uuid": uuid, "code_hash": code}
    run.sessions = dict.fromkeys(run.points, card)
    return run.write(root, **changes)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A publication with a second card, 2 % slower, of other code, and records of its own card."""
    root = tmp_path_factory.mktemp("cards")
    folder = run_of_card(root / "published", "GPU-11111111-6d3e", 1.0, suffix=".jsonl.gz")
    for name, uuid, slower in (
        (SECOND, UUID.format(2), 1.02),
        ("GPU-11111111", "GPU-11111111-6d3e", 1.5),
    ):
        (folder / "cards").mkdir(exist_ok=True)
        run_of_card(root / name, uuid, slower, "b", suffix=".jsonl.gz").rename(
            folder / "cards" / name
        )
    return load_run(folder)


def cards_of(run: Run, *peers: Run) -> Shown:
    return shown_of(analyse(run, None, peers=peers), "cards")


def test_a_further_card_has_its_ratio_by_kind_of_work_and_its_sentence(published: Run) -> None:
    shown = cards_of(published)
    table = shown.files["cards.csv"].set_index(["card", "kind"])
    assert set(table.index.get_level_values("card")) == {SECOND}, "the published card is no other"
    bf16 = table.loc[(SECOND, "Products, bf16"), ["ratio", "p5", "p95"]]
    assert list(bf16) == pytest.approx([1.02] * 3)
    assert table["points"].tolist() == [12, 12, 2]
    assert dict(zip(table.index.get_level_values("kind"), table["code"], strict=True)) == {
        "Memory streams": "other",
        "Products, bf16": "same",
        "Products, fp8_tensorwise": "same",
    }
    answer = answer_of(analyse(published, None), "health")
    assert not answer.is_open
    assert plain(answer.text).startswith(
        "These records are the published ones. 1 further card of this model measured the same "
        "points with the same driver and libraries. By kind of work, their median times are "
        "+2.0 % off the published ones (products +2.0 %); the furthest is Products, bf16 on "
        f"{SECOND}, +2.0 % over 12 points. Single points lie further apart: in a typical kind, "
        "nine of ten at +2.0 %."
    )


def test_the_card_here_stands_beside_the_published_ones(tmp_path: Path, published: Run) -> None:
    own = load_run(run_of_card(tmp_path, UUID.format(3), 0.99))
    shown = cards_of(own, published)
    bf16 = shown.files["cards.csv"].query("kind == 'Products, bf16'").set_index("card")["ratio"]
    assert bf16.to_dict() == pytest.approx({THIRD: 0.99, SECOND: 1.02})
    assert "2 further cards" in shown.prose[0]
    assert "(products -1.0 % to +2.0 %)" in shown.prose[0]

    cards = shown.files["cards.csv"]
    said = own_card_sentence(cards, [UUID.format(3)]).replace("\u00a0", " ")
    assert said == (
        "Median over kinds of work: \N{MINUS SIGN}0.5 % against the published time here, "
        "+2.0 % on 1 further card of this model."
    )
    assert own_card_sentence(cards, [UUID.format(9)]) == ""


def test_other_software_and_other_models_are_not_compared(tmp_path: Path, published: Run) -> None:
    other = run_of_card(tmp_path, UUID.format(3), 0.99, environment={"torch": "2.12.0"})
    for peers in ((published,), ()):
        shown = cards_of(load_run(other), *peers)
        assert not shown.figures
        assert not shown.files


def test_without_further_cards_the_answer_is_open(tmp_path: Path) -> None:
    alone = run_of_card(tmp_path, "GPU-11111111-6d3e", 1.0, suffix=".jsonl.gz")
    answer = answer_of(analyse(load_run(alone), None), "health")
    assert answer.is_open
    assert "No further card of this model measured the same points" in answer.text


def test_without_a_sentinel_in_common_sessions_cannot_be_compared(analysis: Analysis) -> None:
    shown = shown_of(analysis, "cards")
    assert shown.prose[0].startswith("No two sessions share a sentinel")
    assert "panel.csv" not in shown.files
