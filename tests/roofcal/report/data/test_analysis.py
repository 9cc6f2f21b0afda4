"""The tables of a run: each computed once, empty or refused where records lack something."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from roofcal.ops import BY_NAME, FOLDERS
from roofcal.ops.constants import OpPage
from roofcal.points.run import load_run
from roofcal.report.chapter import Chapter
from roofcal.report.data import drawing, op_pages, quality
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.op_pages import page_of
from roofcal.report.data.provenance import ReportError, derived_table, read_derived
from roofcal.report.data.tidy import with_protocol
from roofcal.report.kit.charts import COLOURS, model_colours
from roofcal.report.sections import llm
from tests.roofcal.report.synthetic import DRIFT, MadeUpRun, add_constants, cast, outdate, product


def test_a_run_with_next_to_nothing_has_empty_tables(
    analysis: Analysis, bare_analysis: Analysis, bare: Path, tmp_path: Path
) -> None:
    tables = (bare_analysis.errors, bare_analysis.violations, bare_analysis.missing)
    assert all(table.empty for table in tables)
    assert list(bare_analysis.quality["op"]) == ["gemm", "cast"]
    assert bare_analysis.cache_bytes == 32 << 20  # the driver's
    assert analysis.cache_bytes == 60 << 20  # of the datasheet: the record has none

    (tmp_path / "environment.jsonl").write_bytes((bare / "environment.jsonl").read_bytes())
    nothing = analyse(load_run(tmp_path), None)  # without any plan
    assert nothing.points == nothing.ok == 0
    assert nothing.errors.empty
    assert nothing.quality.empty


def test_a_protocol_has_words() -> None:
    words = {
        ("graph", "normal"): "graph, cold",
        ("events_flush", "zeros"): "events + flush, cold, zeros",
        ("graph", "heavy_tails"): "graph, cold, heavy tails",
        ("accuracy", "normal"): "not timed",
        ("accuracy", "outlier_channels"): "not timed, outlier channels",
    }
    rows = pd.DataFrame([*words], columns=["method", "distribution"]).assign(cache="cold")
    assert list(with_protocol(rows)["protocol"]) == list(words.values())


def test_a_model_keeps_its_colour_beside_others() -> None:
    declared = ["calibrated", "torchao", "wave", "datasheet"]
    colours = model_colours([*declared, "calibrated@e2", "calibrated@e1", "learned"])
    assert len(set(colours.values())) == 7
    assert model_colours(declared) == {name: colours[name] for name in declared}


LABELS = ("recipe",)
NUMBERS = ("error",)


def test_rows_are_read_and_words_like_none_stay_words(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for _ in range(2):
        table = read_derived(path, LABELS, NUMBERS)  # without a file, and of a header alone
        assert table.empty
        assert list(table.columns) == ["recipe", "error"]
        path.write_text("recipe,error\n")
    path.write_text("recipe,error\nnone,0.5\nNA,\n")
    table = read_derived(path, LABELS, NUMBERS)
    assert list(table["recipe"]) == ["none", "NA"]
    assert table["error"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"recipe\nbf16\n", "column error is missing"),
        (b"", "is no CSV file"),
        (b"\xff\xfe\xff", "is no CSV file"),
        (b"recipe,error\nbf16,much\n", "column error holds something else than numbers"),
    ],
)
def test_a_damaged_file_is_named_with_the_way_out(
    tmp_path: Path, content: bytes, says: str
) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(ReportError, match=rf"x\.csv: {says}.* run `make study` again"):
        read_derived(tmp_path / "x.csv", LABELS, NUMBERS)


def test_rows_that_follow_from_outdated_constants_are_left_out(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(64, 64, 64))
    add_constants(made_up)
    folder = made_up.write(tmp_path)
    header = ",".join((*llm.LABELS, *llm.NUMBERS))
    row = ",".join(["x"] * len(llm.LABELS) + ["1"] * len(llm.NUMBERS))
    (folder / llm.FILE).write_text(f"{header}\n{row}\n")

    def shown() -> int:
        return len(derived_table(load_run(folder), llm.FILE, llm.LABELS, llm.NUMBERS)[0])

    assert shown() == 1
    outdate(folder, "gemm")
    assert shown() == 0


SESSION = MadeUpRun().session("gemm")


def test_a_quality_row_sums_up_an_op(analysis: Analysis, bare: Path) -> None:
    row = analysis.quality.set_index("op").loc["gemm"]

    frame = analysis.frames["gemm"]
    assert (row["points"], row["ok"]) == (len(frame), len(frame) - 4)
    assert row["points_per_minute"] == pytest.approx(len(frame))
    assert row["busy_fraction"] == pytest.approx(0.65)
    assert row["throttled_fraction"] == row["narrow_fraction"] == 1.0
    assert row["drift_fraction"] == pytest.approx(DRIFT)

    without_telemetry = load_run(bare).points("gemm").table
    cut = replace(SESSION, wall_s=None)  # it never ended
    assert quality.quality_row(without_telemetry, [cut])["points_per_minute"] is None
    assert quality.quality_row(without_telemetry, [])["throttled_fraction"] is None
    never_measured = quality.quality_row(load_run(bare).points("cast").table, [])
    assert never_measured["points"] == never_measured["ok"] == 0
    assert never_measured["half_width_fraction"] is never_measured["busy_fraction"] is None


def test_a_wide_interval_is_not_narrow_unless_the_host_timed_it(analysis: Analysis) -> None:
    frame = analysis.frames["gemm"]
    by_host = frame.iloc[: 3 * len(frame) // 4].assign(method="wall")
    loose = by_host.assign(ci95_high_s=10 * by_host["median_s"])
    of_both = quality.quality_row(pd.concat([frame, loose]), [])
    for name in ("half_width_fraction", "narrow_fraction"):
        assert of_both[name] == pytest.approx(quality.quality_row(frame, [])[name])
    assert quality.quality_row(loose, [])["half_width_fraction"] > 1
    assert quality.quality_row(loose, [])["narrow_fraction"] == 0.0


def test_points_are_placed_in_time_by_session_and_start(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(64, 64, 64), started_s=30.0)
    made_up.measure(product(64, 64, 128), started_s=6.0, session_id="later")
    frame = made_up.table(tmp_path)
    later = replace(SESSION, session_id="later", started_utc="2026-11-21T04:10:00+00:00")

    assert list(quality.minutes_since_start(frame, [SESSION, later])) == pytest.approx([0.5, 10.1])
    nameless = replace(SESSION, started_utc="")  # counts from the first
    assert list(quality.minutes_since_start(frame[:1], [nameless])) == pytest.approx([0.5])


def test_ops_with_a_baseline_say_what_their_times_include() -> None:
    for op in BY_NAME.values():
        if op.baseline_recipe and op.role == "study":
            words = op_pages.caption_words(op.name)["time_includes"]
            includes_casts = op_pages.page_of(op.name).time_note.endswith("with casts")
            assert ("include" in words) == includes_casts
            assert words.endswith(".")


def test_an_op_without_a_page_is_reported_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = op_pages.page_of
    monkeypatch.setattr(op_pages, "page_of", lambda op: OpPage() if op == "cast" else whole(op))
    casts = MadeUpRun()
    for rows in (1024, 16384):
        casts.measure(cast(rows, 8192, "fp8_rowwise_dim0"))
    chapter = Chapter(casts.analysed(tmp_path), "x")
    titles = {figure.title for figure in chapter.figures if figure.op == "cast"}
    assert "cast: achieved bandwidth" in titles
    assert "points-cast" in "".join(str(getattr(block, "id", "")) for block in chapter.blocks)


@pytest.mark.parametrize("op", BY_NAME)
def test_recipes_of_one_op_have_colours_of_their_own(op: str) -> None:
    colours = [drawing.recipe_colour(recipe) for recipe in BY_NAME[op].recipes]
    assert op == "probe_launch" or len(set(colours)) == len(colours)
    assert set(colours) <= set(COLOURS.values())


def test_pages_of_ops_agree_on_the_colour_of_a_recipe_and_the_marker_of_a_provider() -> None:
    for kind in ("colours", "markers"):
        pairs = {pair for op in FOLDERS for pair in getattr(page_of(op), kind).items()}
        assert len(dict(pairs)) == len(pairs)
