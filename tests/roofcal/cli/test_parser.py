"""Mistakes on the command line: one line, exit code 2, and the nearest name that is allowed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import roofcal
from roofcal.cli.arguments import sizes_text
from roofcal.cli.main import COMMANDS, GROUPS, main
from tests.paths import ROOT

H200 = ["--device", "h200"]
MADE_UP = ["--device", "made-up"]
ODD_WORDS = ["", "-", "--", "\0", "\ud800", "nan", "-1", "1e9", "../..", "{}", "x" * 300, "4x4"]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    message = capsys.readouterr().err
    assert code == 2
    assert "Traceback" not in message
    return message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["advse"], "unknown command 'advse'; did you mean 'advise'?"),
        (["predict", "--recipie", "bf16"], "unknown option --recipie; did you mean '--recipe'?"),
        (["llm", "--by", "calbrated"], "argument --by: 'calbrated'; did you mean 'calibrated'?"),
        (["predict", "--m", "x"], "argument --m: 'x' is not a whole number"),
        (["predict", "--m"], "argument --m: expected one argument"),
        (["predict", "4096", "x"], "argument MxNxK: '' is not a whole number from 1 to 1073741824"),
        (["table", "--json", "--format", "latex"], "argument --format: not allowed with argument"),
        (["table"], "the following arguments are required: --device, --op"),
        (
            ["advise", "8192", *H200, "8192", "8192"],
            "does not take '8192 8192'; MxNxK stand together: all sizes, as 4096x28672x8192 or",
        ),
        (["verify", "--quick=x"], "argument --quick: ignored explicit argument 'x'"),
    ],
)
def test_a_mistake_of_the_command_line_is_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(capsys, *arguments)
    assert message.startswith(f"error: {says}")
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["predict", "4x4", *H200], "4x4 has 2 sizes, and m x n x k are 3"),
        (["advise", "4x4x4", "--m", "4", *H200], "m is given twice"),
        (["predict", "4", *H200], "4 has 1 size, and m x n x k are 3"),
        (["predict", "4x4x4", "--device", "a100"], "'a100' may be any of: nvidia-a100-pcie-80gb"),
        (["table", *H200, "--op", "gemm", "--where", "m = 5"], "no row fits m = 5; columns are op"),
    ],
)
def test_a_question_that_makes_no_sense_is_one_message(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, *arguments).startswith(f"error: {says}")


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"measure", "health"}))
def test_no_word_ends_in_a_traceback(command: str) -> None:
    """Any exception but the end of the program would fail here."""
    option = {"llm": "--model", "table": "--op", "predict": "--points", "advise": "--shapes"}
    for word in ODD_WORDS:
        for words in ([word], [option.get(command, "--device"), word], [word, *MADE_UP]):
            try:
                code = main([command, *words])
            except SystemExit as stopped:
                code = int(stopped.code or 0)
            assert code in (0, 1, 2, 3), words


def test_help_lists_every_command_below_the_heading_of_its_group(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for heading, commands in GROUPS.items():
        section = text.partition(f"{heading}:\n")[2].partition("\n\n")[0]
        listed = [line.split()[0] for line in section.splitlines() if line[2:3].strip()]
        assert listed == list(commands)


def test_the_version_is_that_of_the_package_and_needs_no_ops() -> None:
    script = (
        "import sys; from roofcal.cli.main import main; code = main(['--version'])\n"
        "sys.exit(code or 'roofcal.ops' in sys.modules)"
    )
    version = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert version.stdout == f"roofcal {roofcal.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh", "fish"])
def test_completion_knows_commands_options_and_devices(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--print-completion", shell])
    script = capsys.readouterr().out
    assert all(word in script for word in ("breakeven", "provider", "nvidia-h200", "fp8_axiswise"))


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (
            "predict 64x4096x8192 --device h200 --recipe rowwise",
            "predict --device nvidia-h200 --recipe fp8_axiswise --m 64 --n 4096 --k 8192",
        ),
        (
            "predict 64*4096 --device h200 --op cast --recipe tensorwise",
            "predict --device nvidia-h200 --op cast --recipe fp8_tensorwise --rows 64 --cols 4096",
        ),
        (
            "breakeven 4096x8192 --device h200 --recipe rowwise",
            "breakeven --device nvidia-h200 --recipe fp8_axiswise --n 4096 --k 8192",
        ),
        ("advise 64 4096 8192 --device h200", "advise 64x4096x8192 --device nvidia-h200"),
        ("predict --device h200 64 4096 8192", "predict --device nvidia-h200 64x4096x8192"),
        (
            "breakeven 4096 8192 --device h200 --recipe rowwise",
            "breakeven 4096x8192 --device nvidia-h200 --recipe fp8_axiswise",
        ),
    ],
    ids=["product", "cast", "breakeven", "three words", "words behind", "two words"],
)
def test_short_words_mean_the_long_ones(
    short: str, long: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(capsys, *short.split()) == printed(capsys, *long.split())


def test_tables_of_answers_are_json_for_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = tmp_path / "shapes.csv"
    shapes.write_text("recipe,m,n,k\nbf16,64,4096,4096\n")
    for command in ("predict", "advise"):
        option = "--points" if command == "predict" else "--shapes"
        (row,) = json.loads(printed(capsys, command, *H200, option, str(shapes), "--json"))
        assert (row["m"], row["predicted_s"] > 0) == (64, True)


def test_a_plan_and_what_is_here_are_json_for_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (summary,) = json.loads(printed(capsys, "plan", "--study", "quick", "--op", "cast", "--json"))
    assert summary["ops"]["cast"]["points"] > 0
    assert "Software" in json.loads(printed(capsys, "doctor", "--json"))


@pytest.mark.parametrize(
    "text", ["64x128x256", "64X128X256", "64,128,256", "64*128*256", "64 x 128 x 256"]
)
def test_sizes_in_one_word_are_parted_by_any_usual_sign(text: str) -> None:
    assert sizes_text(text) == (64, 128, 256)
