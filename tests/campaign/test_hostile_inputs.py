"""Nothing that a stranger's file, folder or argument holds is executed, followed or printed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaign.hostile_inputs import HOSTILE_INPUTS, Hostile
from tests.campaign.scratch import SECRET, make_template, run_command, snapshot
from tests.made_once import make_once

MOST_BYTES = 10**9
CASES = [case for cases in HOSTILE_INPUTS.values() for case in cases]
KIND = {case.name: kind for kind, cases in HOSTILE_INPUTS.items() for case in cases}
SHORT = {cases[0].name for cases in HOSTILE_INPUTS.values()}  # what `make test` tries


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout that every case changes a copy of."""
    return make_once(tmp_path_factory, "hostile-inputs", make_template) / "checkout"


def parameter(case: Hostile) -> object:
    """A case by its name; most run in the campaign alone."""
    marks = () if case.name in SHORT else (pytest.mark.campaign,)
    return pytest.param(case, id=case.name.replace(" ", "-"), marks=marks)


@pytest.mark.parametrize("case", [parameter(case) for case in CASES])
def test_a_hostile_input_ends_in_one_message(
    case: Hostile,
    template: Path,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(template, checkout, symlinks=True)
    (tmp_path / "secret").write_text(SECRET)
    case.change(checkout)
    before = snapshot(tmp_path)

    outcome = run_command(checkout, case.command)

    after = snapshot(tmp_path)
    outside = {path for path in after if not path.startswith("checkout/")} - {"said", "usage"}
    result = {
        "hostile input": KIND[case.name],
        "executed": len(list(tmp_path.rglob("PWNED"))),
        "written outside": len(outside - {"secret"}) + (after["secret"] != before["secret"]),
        "secrets printed": (SECRET in outcome.said) + ("root:x:" in outcome.said),  # /etc/passwd
        "tracebacks": int("Traceback" in outcome.said),
        "largest memory in MB": round(outcome.peak_bytes / 1e6),
    }
    record_property("campaign", result)
    assert outcome.code == case.code, outcome.said[-3000:]
    assert case.says in outcome.said, outcome.said[-3000:]
    assert list(result.values())[1:-1] == [0] * 4, outcome.said[-3000:]
    assert outcome.peak_bytes <= MOST_BYTES
