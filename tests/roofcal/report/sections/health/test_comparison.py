"""A card is held against what was published of its kind: planted slowdowns, reasons, no answer."""

from collections.abc import Mapping
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
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.sections.health import (
    FILE,
    Health,
    health_of_run,
    judge_kinds,
    publication_for,
    summarise_kinds,
)
from tests.roofcal.report.chapters import blocks_of
from tests.roofcal.report.pages import unpack
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


def health(run: Run, *peers: Run) -> Health:
    return health_of_run(run, {op: run.points(op).table for op in run.ops}, peers)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return measured_run(tmp_path_factory.mktemp("published"), suffix=".jsonl.gz")


def row(health_here: Health, kind: str) -> Mapping[Any, Any]:
    rows: list[dict[Any, Any]] = health_here.kinds.to_dict("records")
    return next(one for one in rows if one["kind"] == kind)


def test_the_same_times_are_healthy(tmp_path: Path, published: Run) -> None:
    health_here = health(measured_run(tmp_path), published)
    assert health_here.state == "healthy"
    assert health_here.answer.startswith("Healthy: over 31 shared points")
    assert set(health_here.kinds["kind"]) == {"gemm", "gemm sentinel", "probe_copy"}
    assert row(health_here, "gemm")["ratio"] == pytest.approx(1.0)


def test_a_slow_card_is_slower_and_its_clock_explains_it(tmp_path: Path, published: Run) -> None:
    health_here = health(measured_run(tmp_path, slower=1.25, clock=1.4e9 / 1.25), published)
    assert health_here.state == "slower"
    assert "25.0\N{NO-BREAK SPACE}% longer" in health_here.answer
    assert "\N{MINUS SIGN}20.0" in health_here.answer
    assert "the card named power_cap, which explains it" in health_here.answer
    assert row(health_here, "gemm")["ratio"] == pytest.approx(1.25)
    assert row(health_here, "gemm")["clock"] == pytest.approx(0.8)
    assert row(health_here, "probe_copy")["ratio"] == pytest.approx(1.0)
    assert row(health_here, "gemm sentinel")["ratio"] == pytest.approx(1.25, rel=0.01)
    same_clock = health(measured_run(tmp_path / "same", slower=1.25), published)
    assert same_clock.answer.endswith("which does not explain it.")


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
    health_here = health(load_run(own.folder), published)
    assert health_here.state == "fails points"
    assert health_here.answer.startswith(
        "Not healthy: 2 points with published times have none here (2 failed). Over "
    )
    assert "Healthy:" not in health_here.answer


def test_without_a_publication_one_sentence_says_so(tmp_path: Path, published: Run) -> None:
    own = measured_run(tmp_path)
    health_here = health(own)
    assert (health_here.state, health_here.against) == ("cannot be told", None)
    assert "no publication of nvidia-h200" in health_here.answer
    assert health_here.kinds.empty
    assert "are the published ones" in health(published, own, published).answer


def test_a_publication_without_shared_points_decides_nothing(tmp_path: Path) -> None:
    other = MadeUpRun()
    other.measure(product(64, 64, 64))
    few = load_run(other.write(tmp_path / "published", suffix=".jsonl.gz"))
    health_here = health(measured_run(tmp_path / "own"), few)
    assert health_here.state == "cannot be told"
    assert f"fewer than {FEWEST_SAMPLES} points" in health_here.answer


def test_an_interval_across_the_limit_decides_nothing() -> None:
    half = [1.0] * 10 + [1.2] * 10
    points = pd.DataFrame(
        {"kind": "gemm", "ratio": half}
        | dict.fromkeys(("sm_clock_hz", "power_w", "throttle_reasons"))
        | {f"{n}_published": None for n in ("sm_clock_hz", "power_w", "throttle_reasons")}
    )
    state, answer = judge_kinds(summarise_kinds(points), "somewhere")
    assert state == "cannot be told"
    assert f"{BETWEEN_CARDS:.0%}".replace("%", "\N{NO-BREAK SPACE}%") in answer


def test_the_publication_of_the_same_environment_is_chosen(tmp_path: Path) -> None:
    def of(folder: str, environment: Mapping[str, Any], suffix: str = ".jsonl.gz") -> Run:
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


@pytest.mark.parametrize(
    ("environment", "says"),
    [({}, "of the same environment"), ({"torch": "2.10.0"}, "which may cause a difference")],
)
def test_a_run_with_a_publication_says_how_and_has_both_tables(
    tmp_path: Path, environment: dict[str, str], says: str
) -> None:
    peer = measured_run(tmp_path / "published", environment=environment, suffix=".jsonl.gz")
    analysis = analyse(measured_run(tmp_path / "own", slower=1.2), None, peers=[peer])
    about, kinds, points = blocks_of(analysis, "health")
    assert isinstance(about, Prose)
    assert says in about.text
    assert isinstance(kinds, Table)
    assert isinstance(points, Table)
    assert (kinds.total, points.total) == (3, 31)
    assert kinds.source == points.source == FILE
    assert "power_cap" in kinds.body
    shown = unpack(points.packed)
    assert "4,096" not in shown
    assert "1,024 \N{MULTIPLICATION SIGN} 1,024" in shown
