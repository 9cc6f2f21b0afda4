"""The rules themselves, beside what `make lint` asks: the limits of DESIGN.md."""

import re

import pytest

from tests.paths import ROOT

RULES = sorted((ROOT / "workflow" / "rules").glob("*.smk"))


@pytest.mark.parametrize("rule", [file.stem for file in RULES if file.stem != "common"])
def test_a_rule_has_one_file_a_log_and_no_python_of_its_own(rule: str) -> None:
    text = (ROOT / "workflow" / "rules" / f"{rule}.smk").read_text()

    names = r"^(?:rule|use rule \w+ as) (\w+)(?: with)?:"
    assert re.findall(names, text, re.MULTILINE) == [rule]
    assert "    log:" in text
    assert "    message:" in text
    assert not re.search(r"^\s+(run|script|notebook|wrapper):", text, re.MULTILINE)
    assert not re.search(r"^(import|from|def) ", text, re.MULTILINE)
