"""What each term buys: the table of gains, and that docs/models.md has no term that is gone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from roofcal.core.priors import Known, Prior
from roofcal.fitting.cross_validation import Problem, choose_families, search
from roofcal.fitting.probes import Probe
from roofcal.ops import STUDY_OPS
from roofcal.ops.cast.fit import PROBLEM
from roofcal.ops.constants import load_part
from tests.paths import ROOT
from tests.roofcal.calibrate import probe_runs
from tests.roofcal.calibrate.probe_runs import device_with, read_probes, write_run
from tests.roofcal.made_up_records import point_of
from tools.term_gains import ALL_TERMS, _errors, _rows, _without, table_of, written_into

MISALIGNED = load_part(PROBLEM.equation.OP, "model").CONSTANTS["misaligned"].label  # type: ignore[union-attr]


def casts(folder: Path, noise: float = 0.0) -> Problem:
    """Casts of a made-up GPU, by the equation that they were made with."""
    run = write_run(folder, noise=noise, ops=("probe_cast",))
    return PROBLEM.of(read_probes(run, "probe_cast"), device_with())


def ragged(rows: int, cols: int, provider: str = "made") -> Probe:
    """A study point whose rows are off 16 bytes."""
    sizes = np.array([float(rows)]), np.array([float(cols)])
    seconds = float(probe_runs.cast_seconds("fp8_rowwise_dim0", "plain", *sizes)[0])
    shape = {"rows": rows, "cols": cols}
    point = point_of("cast", "fp8_rowwise_dim0", shape, provider=provider)
    return probe_runs.as_probes([(point, seconds)])[0]


def test_a_term_gains_where_its_shapes_are_and_a_shape_counts_once(tmp_path: Path) -> None:
    problem = casts(tmp_path)
    new, newer = ragged(4100, 8200), ragged(2051, 8200)
    points = {"study": [problem.probes[0], new, ragged(4100, 4104, "other")], "judge": [new, newer]}
    rows = pd.DataFrame(_rows(problem, "plain", points))
    own = rows[rows["without"] == MISALIGNED]
    assert own["kind"].tolist() == ["probes"] * len(problem.probes) + ["study", "judge"]
    assert own["shape"].tolist()[-2:] == [str(new.shape), str(newer.shape)]
    assert own["error"].max() < 1e-3
    assert own["gain"].tolist()[-2:] == pytest.approx([0.3] * 2, abs=0.1)  # it is 1.5
    whole = rows[rows["without"] == ALL_TERMS]
    assert whole["gain"].tolist() == whole["error"].tolist() == own["error"].tolist()


def test_probes_are_judged_by_fits_without_them_and_others_by_all_probes(tmp_path: Path) -> None:
    problem, other = casts(tmp_path, noise=0.05), ragged(4100, 8200)
    every = np.ones((1, len(problem.probes)))
    of_folds = choose_families(problem, every)[1][0, 0]
    fitted = search(problem, "plain", every, problem.space("plain"))
    of_other = replace(problem, probes=[other]).log_errors("plain", fitted)[0]
    both = replace(problem, probes=[*problem.probes, other])
    errors = _errors(problem, both, "plain")
    assert errors == pytest.approx(np.abs([*of_folds, *of_other]))


def test_no_other_card_says_anything_of_what_is_left_out(tmp_path: Path) -> None:
    problem = casts(tmp_path)
    told = Prior(family="plain", constants={n: Known(1.5, 0.1) for n in ("fixed_s", "misaligned")})
    pair = (problem.provider, problem.recipe)
    device = replace(problem.device, priors={pair: told})
    without = _without(replace(problem, device=device), "misaligned")
    assert without.left_out == {"misaligned"}
    assert list(without.device.priors[pair].constants) == ["fixed_s"]


def test_a_page_without_marks_is_refused() -> None:
    page = "before\n<!-- term gains -->\nold\n<!-- / -->\nafter\n"
    new = "before\n<!-- term gains -->\n| a |\n| - |\n<!-- / -->\nafter\n"
    assert written_into(page, ["| a |", "| - |"]) == new
    with pytest.raises(ValueError, match=r"models\.md: wanted .*, found 0"):
        written_into(page.replace("term gains", "gains"), [])


def test_gains_stand_by_kind_and_gpu_and_terms_without_effect_are_left_out() -> None:
    rows = [
        ("used", "probes", "1", 0.02),  # two recipes of one shape
        ("used", "probes", "1", 0.0),
        ("used", "probes", "2", 0.05),
        ("used", "judge", "3", -0.01),
        ("idle", "probes", "1", 0.0),
    ]
    frame = pd.DataFrame(rows, columns=["without", "kind", "shape", "gain"])
    heads, _, *lines = table_of(frame.assign(op="gemm", provider="made", gpu="H100"))
    assert heads == "| equation | without | probes, H100 | study, H100 | judge, H100 |"
    assert lines == ["| gemm, made | used | +3.0 ± 2.0 |  | -1.0 |"]


def test_the_page_has_terms_of_present_equations() -> None:
    equations = filter(None, (load_part(op, "model") for op in STUDY_OPS))
    fitted = [equation for equation in equations if hasattr(equation, "FAMILY")]
    labels = {constant.label for one in fitted for constant in one.CONSTANTS.values()}
    text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    table = text.partition("<!-- term gains -->")[2].partition("<!-- / -->")[0]
    shown = {line.split(" | ")[1] for line in table.strip().splitlines()[2:]}
    assert len(shown) > 20
    assert ALL_TERMS in shown
    assert shown <= {*labels, ALL_TERMS}, "run: python -m tools.term_gains"
