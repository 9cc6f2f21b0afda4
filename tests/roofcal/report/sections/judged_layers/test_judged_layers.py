"""The section is there with records of a judge alone, and shows the seed that was measured last."""

import pandas as pd

from roofcal.judge.errors import error_sentences, errors_of_seed
from roofcal.models.registry import MODELS
from roofcal.report.data.analysis import Analysis
from tests.roofcal.judge.records import JUDGED, SEED, h100, published_run
from tests.roofcal.report.chapters import Shown, shown_of


def shown_with(errors: pd.DataFrame) -> Shown:
    """What is shown of a run with these errors: the rivals of a judge take seconds to fit."""
    analysis = Analysis(run=published_run(), spec=h100(), frames={}, sessions={})
    analysis.__dict__["judged"] = errors
    return shown_of(analysis, "judged-layers")


def test_the_file_has_all_seeds_and_the_page_the_last_with_a_sentence_of_each_op() -> None:
    models = [MODELS["calibrated"]]
    newest = errors_of_seed(SEED, JUDGED, published_run(), h100(), models)
    earlier = newest.assign(seed=9, measured_utc="2026-11-01T00:00:00+00:00")
    shown = shown_with(pd.concat([earlier, newest], ignore_index=True))
    first, *sentences = shown.prose
    assert first.startswith("Seed 1 drew layers of public models that no study lists.")
    assert "on 2026-11-27. No fit reads these records." in first
    assert len(sentences) == len(error_sentences(newest)) == newest["op"].nunique()
    file, table = shown.files["judged_errors.csv"], shown.tables["judged"].frame
    assert set(file["seed"]) == {9, SEED}
    assert set(table["seed"]) == {SEED}
    assert len(table) == len(newest)


def test_without_records_of_a_judge_there_is_no_section() -> None:
    assert shown_with(pd.DataFrame()) == Shown()
