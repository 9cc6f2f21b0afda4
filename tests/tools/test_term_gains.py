"""What each term buys: the table of gains, and that docs/models.md has no term that is gone."""

import pandas as pd

from roofcal.ops import STUDY_OPS
from roofcal.ops.constants import load_part
from tests.paths import ROOT
from tools.term_gains import table_of


def test_gains_stand_by_kind_and_gpu_and_terms_without_effect_are_left_out() -> None:
    rows = [
        ("used", "probes", "1", 0.02),
        ("used", "probes", "2", 0.04),
        ("used", "judge", "3", -0.01),
        ("idle", "probes", "1", 0.0),
    ]
    frame = pd.DataFrame(rows, columns=["without", "kind", "shape", "gain"])
    heads, _, *lines = table_of(frame.assign(op="gemm", provider="made", gpu="H100"))
    assert heads == "| equation | without | probes, H100 | study, H100 | judge, H100 |"
    assert lines == ["| gemm, made | used | +3.0 ± 0.7 |  | -1.0 ± 0.0 |"]


def test_the_page_has_terms_of_present_equations() -> None:
    equations = filter(None, (load_part(op, "model") for op in STUDY_OPS))
    fitted = [equation for equation in equations if hasattr(equation, "FAMILY")]
    labels = {constant.label for one in fitted for constant in one.CONSTANTS.values()}
    text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    table = text.partition("<!-- term gains -->")[2].partition("<!-- / -->")[0]
    shown = {line.split(" | ")[1] for line in table.strip().splitlines()[2:]}
    assert len(shown) > 20
    assert shown <= labels, "run: python -m tools.term_gains"
