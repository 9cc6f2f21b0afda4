"""A card is held against what was published of its kind: planted slowdowns, reasons, no answer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Measurement, Session
from roofcal.core.statistics import BETWEEN_CARDS, FEWEST_SAMPLES
from roofcal.points.run import Run, load_run
from roofcal.report.data.analysis import analyse
from roofcal.report.data.cards import publication_for
from roofcal.report.sections.health import judge_kinds, summarise_kinds
from tests.roofcal.report.chapters import Shown, plain, shown_of
from tests.roofcal.report.synthetic import (
    CPU,
    GPU,
    MadeUpRun,
    product,
    stream,
    telemetry,
    true_seconds,
)

SIDES = tuple(1024 + 128 * step for step in range(12))


def measured_run(root: Path, *, slower: float = 1.0, clock: float = 1.4e9, **changes: Any) -> Run:
    """Products, streams and a sentinel; `slower` is the time of products over the true one."""
    run = MadeUpRun(replace(GPU, **changes.pop("environment", {})))
    for side in SIDES:
        point = product(side, side, side)
        seen = telemetry(clock, 690.0, ("power_cap",))
        run.measure(point, slower * true_seconds(point), telemetry=seen)
        run.measure(stream(side << 16))
    for repeat in range(1, 8):
        point = product(4096, 4096, 4096, repeat=repeat, sweeps=("sentinel",))
        run.measure(point, slower * true_seconds(point) * (1 + 1e-3 * repeat))
    return load_run(run.write(root, **changes))


def health(run: Run, *peers: Run) -> Shown:
    return shown_of(analyse(run, None, peers=peers), "health")


def row(shown: Shown, kind: str) -> Any:
    return shown.tables["health-kinds"].frame.set_index("kind").loc[kind]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return measured_run(tmp_path_factory.mktemp("published"), suffix=".jsonl.gz")


def test_the_same_times_are_healthy(tmp_path: Path, published: Run) -> None:
    shown = health(measured_run(tmp_path), published)
    assert shown.answer.startswith("Healthy: over 31 shared points")
    kinds = shown.tables["health-kinds"].frame["kind"]
    assert set(kinds) == {"gemm", "gemm sentinel", "probe_copy"}
    assert row(shown, "gemm")["ratio"] == pytest.approx(1.0)
    assert "It is of the same environment." in shown.prose[0]


def test_a_slow_card_is_slower_and_its_clock_explains_it(tmp_path: Path, published: Run) -> None:
    shown = health(measured_run(tmp_path, slower=1.25, clock=1.4e9 / 1.25), published)
    assert shown.answer.startswith("Slower than published: gemm takes 25.0 % longer")
    assert "its clock is at -20.0 %" in shown.answer
    assert shown.answer.endswith("the card named power_cap, which explains it.")
    assert row(shown, "gemm")["clock"] == pytest.approx(0.8)
    assert row(shown, "gemm")["reasons"] == "power_cap"
    ratios = shown.tables["health-kinds"].frame.set_index("kind")["ratio"].to_dict()
    expected = {"gemm": 1.25, "gemm sentinel": 1.25, "probe_copy": 1.0}
    assert ratios == pytest.approx(expected, rel=0.01)
    assert shown.tables["health-points"].total == len(shown.files["health.csv"]) == 31
    assert shown.tables["health-points"].frame["ratio"].is_monotonic_decreasing


def test_another_environment_of_the_publication_may_explain_a_difference(
    tmp_path: Path, published: Run
) -> None:
    own = measured_run(tmp_path, slower=1.25, environment={"torch": "2.10.0"})
    shown = health(own, published)
    assert shown.answer.endswith("which does not explain it."), "at the same clock"
    assert "which may cause a difference" in shown.prose[0]


def test_points_that_fail_here_and_are_published_are_not_healthy(
    tmp_path: Path, published: Run
) -> None:
    own = measured_run(tmp_path)
    path = own.folder / "measurements/gemm.jsonl"
    session, *rows = read_records(path, Session, Measurement)
    broken: list[Measurement] = [row for row in rows if isinstance(row, Measurement)]
    for place, status in enumerate(("failed", "failed", "unsupported")):
        broken[place] = replace(broken[place], status=status)  # type: ignore[arg-type]
    write_records(path, [session, *broken])
    answer = health(load_run(own.folder), published).answer
    assert answer.startswith(
        "Not healthy: 2 points with published times have none here (2 failed). Over "
    )
    assert "Healthy:" not in answer


def test_without_published_points_one_sentence_says_so(tmp_path: Path, published: Run) -> None:
    own = measured_run(tmp_path)
    assert "no publication of nvidia-h200" in health(own).answer
    assert not health(own).tables
    assert "are the published ones" in health(published, own, published).answer
    other = MadeUpRun()
    other.measure(product(64, 64, 64))
    few = load_run(other.write(tmp_path / "few", suffix=".jsonl.gz"))
    shown = health(own, few)
    assert shown.answer.startswith(f"Cannot be told here: fewer than {FEWEST_SAMPLES} points")


def test_an_interval_across_the_limit_decides_nothing() -> None:
    half = [1.0] * 10 + [1.2] * 10
    points = pd.DataFrame(
        {"kind": "gemm", "ratio": half}
        | dict.fromkeys(("sm_clock_hz", "power_w", "throttle_reasons"))
        | {f"{n}_published": None for n in ("sm_clock_hz", "power_w", "throttle_reasons")}
    )
    answer = judge_kinds(summarise_kinds(points), "somewhere")
    assert answer.is_open
    assert f"and {100 * BETWEEN_CARDS:.0f} % is the limit" in plain(answer.text)


def test_the_publication_of_the_same_environment_is_chosen(tmp_path: Path) -> None:
    def of(folder: str, environment: dict[str, Any], suffix: str = ".jsonl.gz") -> Run:
        run = MadeUpRun(replace(GPU, **environment))
        run.measure(product(64, 64, 64))
        return load_run(run.write(tmp_path / folder, suffix=suffix))

    own, same = of("own", {}, ".jsonl"), of("published", {})
    later, earlier = (of("published", {"torch": torch}) for torch in ("2.12.0", "2.9.0"))
    assert publication_for(own, [later, same, earlier]) is same
    assert publication_for(own, [later, earlier]) is later
    bare = MadeUpRun(CPU)
    bare.measure(product(64, 64, 64, device=CPU.device))
    assert publication_for(load_run(bare.write(tmp_path / "cpu")), [same, later]) is None
