"""Thinning is deterministic, and a sentence says so."""

import pandas as pd

from roofcal.report.kit.pictures import thinned, thinning_note


def test_few_points_are_all_drawn() -> None:
    rows = pd.DataFrame({"a": range(10)})
    assert thinned(rows, 10) is rows
    assert thinning_note(10, 10) == ""


def test_many_points_are_thinned_evenly_and_a_sentence_says_so() -> None:
    rows = pd.DataFrame({"a": range(1000)})
    assert list(thinned(rows, 4)["a"]) == [0, 250, 500, 750]
    assert thinning_note(4, 1000) == " 4 of 1,000 points are drawn, evenly chosen."
