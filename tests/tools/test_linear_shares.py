"""docs/models.md says of the shares of linears what the published records say today."""

import re

import pytest

from tests.paths import ROOT
from tools import linear_shares

_LINE = re.compile(r"(\d+) linears, ([\d.]+)% off, bias \+?(-?[\d.]+)%, (\d+)% inside")


def test_the_page_has_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    linear_shares.main()
    less, chosen, more, alone, torchao, axiswise, *_ = capsys.readouterr().out.splitlines()
    page = " ".join((ROOT / "docs" / "models.md").read_text().split())
    lines = (less, chosen, more, alone)
    found = [match.groups() for line in lines if (match := _LINE.search(line))]
    of_less, (count, off, bias, inside), of_more, (_, off_alone, bias_alone, _) = found
    assert f"on the {count} published linears" in page
    assert f"they are {off} % off, bias {bias} %, and {inside} % of them lie inside" in page
    assert f"parts as they are alone make {off_alone} % with a bias of {bias_alone} %" in page
    (_, off_less, bias_less, _), (_, off_more, bias_more, _) = of_less, of_more
    assert float(off) < min(float(off_less), float(off_more))
    worse = f"({off_less} % off, bias {bias_less} %, and {off_more} % off, bias {bias_more} %)"
    assert f"0.97 and 0.99 are worse {worse}" in page
    assert "36 linears" in torchao
    assert "of 36 between a norm and a sigmoid" in page
    least, most = re.findall(r"\+(\d+)%", axiswise)
    assert axiswise.strip().startswith("fp8_axiswise,")
    assert f"the large axiswise ones take {least} to {most} % longer than the sum" in page
