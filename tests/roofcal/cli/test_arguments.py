"""Sizes on the command line, and where text goes."""

from pathlib import Path

import pytest

from roofcal.cli.arguments import write_or_print
from roofcal.cli.main import main


@pytest.mark.parametrize("size", ["0", "-1", "1.5", "many"])
def test_a_size_is_a_whole_number_above_zero(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["predict", "--device", "made-up", "--m", size])
    assert caught.value.code == 2
    assert "is not a whole number above 0" in capsys.readouterr().err


def test_text_goes_to_the_file_or_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_or_print("a,b\n", tmp_path / "deep/out.csv")
    assert (tmp_path / "deep/out.csv").read_text() == "a,b\n"
    assert capsys.readouterr().out == ""
    write_or_print("a,b\n", None)
    assert capsys.readouterr().out == "a,b\n"
