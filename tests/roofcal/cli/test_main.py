"""The command line as a whole: help, version, completion, words for sizes, and how it ends."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import roofcal
from roofcal.cli.commands import sizes_text
from roofcal.cli.main import COMMANDS, CRASHED, GROUPS, main
from tests.architecture.tree import modules
from tests.paths import ROOT
from tests.roofcal.cli.conftest import Shell


@pytest.mark.parametrize("command", ["health", "fleet", "compare"])
def test_a_fault_of_roofcal_is_no_verdict(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Python's own exit code after a traceback is 1: a slower card, or a regression."""

    def crash(*_: object) -> None:
        raise RuntimeError("GPU is lost")

    for name in ("roofcal.study.discover.discover", "roofcal.health.comparison.read_fleet"):
        monkeypatch.setattr(name, crash)
    monkeypatch.setattr("roofcal.cli.records.run_named", crash)
    folders = {"fleet": [str(tmp_path)], "compare": ["a", "b"]}.get(command, [])
    assert main([command, *folders]) == CRASHED
    assert "RuntimeError: GPU is lost" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_ends_a_command_without_a_word() -> None:
    """As in `devices | head -1`; with the exit code that a shell shows for `yes | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "roofcal", "devices"],
        cwd=ROOT,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def third_party_modules() -> set[str]:
    """Top-level names that roofcal imports, wherever in a file, and the standard library lacks."""
    return set().union(*(module.third_party() for module in modules("roofcal")))


def extras_of_distributions() -> dict[str, str]:
    """Distribution -> the extra of pyproject.toml that brings it, "" for roofcal's own needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"dev": [], **project["optional-dependencies"], "": project["dependencies"]}
    return {
        requirement.partition(">")[0].partition("=")[0]: extra
        for extra, requirements in groups.items()
        for requirement in requirements
    }


# Benches name the distribution themselves, and go on without it.
OPTIONAL_PROVIDERS = {"cuda", "gemlite", "torchao"}


def test_a_missing_module_leads_to_what_brings_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    extras, distributions = extras_of_distributions(), packages_distributions()
    missing = sorted(third_party_modules() - OPTIONAL_PROVIDERS)
    assert {"numpy", "torch", "vl_convert"} <= {*missing}
    for module in missing:

        def lacks_module(*_: object, name: str = f"{module}.part") -> int:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

        monkeypatch.setattr("roofcal.cli.commands.Command.run", lacks_module)
        names = [name.lower() for name in distributions[module]]
        extra = next(extras[name] for name in names if name in extras)
        way_out = f".[{extra}]" if extra else "."

        assert main(["verify", "--quick"]) == 2

        message = f"error: this needs the module {module}: pip install '{way_out}'\n"
        assert capsys.readouterr().err == message


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


@pytest.mark.parametrize("command", COMMANDS)
def test_no_meaning_in_help_runs_into_the_next_option(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert re.search(r" \w+ \([A-Z]+\): ", capsys.readouterr().out) is None


HEAVY = {"jinja2", "matplotlib", "pandas", "scipy", "seaborn", "snakemake", "torch", "vl_convert"}


@pytest.mark.parametrize(
    ("command", "says", "without"),
    [
        # 0.15 s of CPU time; numpy alone takes 0.1 s
        ("--version", f"roofcal {roofcal.__version__}\n", {"roofcal.ops", "roofcal.api", "numpy"}),
        ("--help", "usage: roofcal ", {"roofcal.ops", "roofcal.api", "numpy"}),
        ("compare --help", "usage: roofcal compare ", {"roofcal.api"}),  # it costs 0.25 s
        # Each costs 0.3 to 2 s. `make bench` times whole answers.
        ("advise --device nvidia-h200 4096x28672x8192", "Use ", HEAVY),
        ("llm --model llama3-8b --device nvidia-b200 --by datasheet", "Each request ", HEAVY),
    ],
)
def test_a_command_imports_no_more_than_it_needs(
    command: str, says: str, without: set[str]
) -> None:
    script = (
        "import sys; from roofcal.cli.main import main\n"
        "try: assert main(sys.argv[1:]) == 0\n"
        "except SystemExit as end: assert end.code == 0\n"
        f"assert not {without} & {{*sys.modules}}"
    )
    words = [sys.executable, "-c", script, *command.split()]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(says)


def test_help_is_at_most_120_columns_wide(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    for words in (["--help"], ["llm", "--help"]):
        with pytest.raises(SystemExit):
            main(words)
        assert 100 < max(map(len, capsys.readouterr().out.splitlines())) <= 120


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh", "fish"])
def test_completion_knows_commands_options_and_devices(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--print-completion", shell])
    script = capsys.readouterr().out
    assert all(word in script for word in ("breakeven", "provider", "nvidia-h200", "fp8_axiswise"))


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("predict 64*4096 --device h200 --op cast --recipe tensorwise",
         "predict --device nvidia-h200 --op cast --recipe fp8_tensorwise --rows 64 --cols 4096"),
        ("breakeven 4096 8192 --device h200 --recipe rowwise",
         "breakeven --device nvidia-h200 --recipe fp8_axiswise --n 4096 --k 8192"),
        ("predict --device h200 64 4096 8192",
         "predict 64x4096x8192 --device nvidia-h200 --op gemm --recipe bf16"),
    ],
    ids=["cast", "breakeven", "words behind"],
)  # fmt: skip
def test_short_words_mean_the_long_ones(short: str, long: str, shell: Shell) -> None:
    assert shell.text(short) == shell.text(long)


@pytest.mark.parametrize(
    "text", ["64x128x256", "64X128X256", "64,128,256", "64*128*256", "64 x 128 x 256"]
)
def test_sizes_in_one_word_are_parted_by_any_usual_sign(text: str) -> None:
    assert sizes_text(text) == (64, 128, 256)
