"""A mistake is one line with the way out, and exit code 2."""

from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.cli.main import COMMANDS, main
from roofcal.core.jsonl import read_single_record, write_records
from roofcal.core.records import Calibration
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT
from tests.roofcal.cli.conftest import Shell

ODD_WORDS = ["", "--", "\0", "\ud800", "nan", "-1", "../.."]
SIZE = "is not a whole number from 1 to 1073741824"

# What the words alone say, and those that no mode of a command reads.
OF_WORDS = [
    ("advse", "unknown command 'advse'; did you mean 'advise'?"),
    ("predict --recipie bf16", "unknown option --recipie; did you mean '--recipe'?"),
    ("llm --by calbrated", "argument --by: 'calbrated'; did you mean 'calibrated'?"),
    ("predict --m x", "argument --m: 'x' is not a whole number"),
    ("predict --m", "argument --m: expected one argument"),
    *((f"predict --m {m}", SIZE) for m in ("0", "1.5", "1073741825", "9" * 5000)),
    ("predict 4096 x", f"argument MxNxK: '' {SIZE}"),
    *((f"llm --price-per-hour {price}", "is not a price") for price in ("-1", "nan", "inf", "x")),
    *((f"compare a b --threshold {text}", "is not a fraction between 0") for text in "20nx"),
    ("table --json --format latex", "argument --format: not allowed with argument"),
    ("table", "the following arguments are required: --device, --op"),
    ("advise 8192 --device h200 8192 8192", "does not take '8192 8192'; MxNxK stand together: all"),
    ("verify --quick=x", "argument --quick: ignored explicit argument 'x'"),
    ("measure --retry okay", "out_of_memory"),
    ("predict", "predict needs --device"),
    ("llm", "llm needs --device --model"),
    ("breakeven --device made-up", "breakeven needs --recipe --n --k"),
    ("predict --points p.csv --recipe bf16 --m 4", "--recipe, --m do not go with --points"),
    ("predict --run r --device made-up", "--device does not go with --run"),
    ("predict 4x4x4 --device h200 --out o", "--out needs --symbolic or --run or --points"),
    ("predict 4x4x4 --also c --linear", "--also needs --run; --linear needs --symbolic"),
    ("predict 4x4 --op cast --recipe fp8_tensorwise --m 4 --device made-up",
     "--m does not go with --op cast"),
    ("predict 4x4x4 --device h200 --by wave --environment e", "'wave' reads no calibration"),
    ("judge p.csv --device h200 --by torchao --environment e",
     "model 'torchao' reads no calibration: leave out the environment 'e'"),
    ("advise --shapes s.csv --energy 4x4x4", "--energy, MxNxK do not go with --shapes"),
    ("breakeven 4x4 --casts none --weights cast", "--weights does not go with --casts none"),
    ("llm --sweep --tp 2 --batch 4", "--tp, --batch do not go with --sweep"),
    *((f"{command} --model wave", "unknown option --model; --by names the model of time")
      for command in ("predict", "advise", "breakeven", "judge p.csv")),
    ("llm --curve --tp 2 --batch 4", "--batch does not go with --curve at a given --tp or --pp"),
    ("llm --gpus 4", "--gpus needs --sweep"),
    *((f"advise --min-db {text}", "is not a number of decibels") for text in ("x", "nan", "inf")),
    ("llm --by notebook --batch 4", "--batch does not go with --by notebook"),
    ("claims --environment e", "--environment needs --device"),
    ("health --node n", "--node needs --every-card"),
    ("doctor --profile p --json", "--json does not go with --profile"),
    ("plan --slice '{}'", "--slice needs --out"),
    ("""plan --out o --op cast --environment e --slice '{"op": "gemm"}'""",
     "--op cast, and --slice is of op gemm"),
    ("plan --op gem", "unknown op 'gem'; did you mean 'gemm'?"),
    *((f"predict --symbolic --by torchao --device h100-sxm {option}",
       f"{option.split()[0]} does not go with --symbolic")
      for option in ("--op cast", "--rows 4")),
]  # fmt: skip
SYMBOLIC = "predict --by torchao --symbolic"
OF_PUBLICATIONS = [
    ("predict 4x4 --device h200", "4x4 has 2 sizes, and m x n x k are 3"),
    ("advise 4x4x4 --m 4 --device h200", "m is given twice"),
    ("advise --m 1 --device h200", "advise needs --n --k"),
    ("predict 4x4x4 --device a100", "'a100' may be any of: nvidia-a100-pcie-80gb"),
    *((f"predict 4x4x4 --device h2o0 --by {model}", "did you mean 'h200'?")
      for model in ("calibrated", "datasheet", "wave")),
    ("advise 4x4x4 --device h200 --by calibratd", "unknown model 'calibratd'"),
    *((f"advise 512x4096x4096 --device h200 {options}", says) for options, says in (
        ("--recipes bf61", "unknown recipe 'bf61'; did you mean 'bf16'?"),
        ("--recipes bf16,nothing", "unknown recipe 'nothing'; allowed: bf16, fp8_axiswise"),
        ("--min-db 99", "for 512x4096x4096: left out, accuracy below 99 dB or unknown: bf16"),
    )),
    ("advise --device h200 --shapes nowhere.csv", "nowhere.csv: cannot be read"),
    ("llm --device h200 --model llama-70b", "unknown model 'llama-70b'; did you mean 'llama3-70b'"),
    ("llm --device h200 --model llama3-8b --tp 3", "--tp 3 does not divide the 32 heads"),
    ("llm --device h200 --model llama3-8b --recipe fp4", "it knows bf16, fp8_tensorwise, fp8_ax"),
    ("llm --device h200 --model llama3-8b --tp 8 --link calibrated",
     "it has: 2 (all_gather), 2 (all_reduce), 4 (all_gather), 4 (all_reduce);"),
    ("llm --device h200 --model llama3-405b --tp 1",
     "141 less 10% in reserve); smallest --tp that fits"),
    ("llm --device h200 --model llama3-8b --batch 9999999", "fits in no cut of up to 512 GPUs of"),
    ("llm --device h200 --model llama3-405b --by wave --sweep --gpus 4", "give --gpus 8 or more"),
    ("llm --device h200 --model llama3-8b --by wave --link calibrated", "is for --by calibrated"),
    ("llm --device h200 --model qwen3-30b-a3b --recipe fp8_axiswise --tp 32",
     "--tp 32 leaves 2048 x 24 (n x k) of expert_down of qwen3-30b-a3b on a GPU"),
    ("table --device h200 --op gemm --where 'm = 5'", "no row fits m = 5; columns are op"),
    ("export --device h200 --format torcha", "unknown format 'torcha'; did you mean 'torchao'?"),
    ("export --device h200 --format csv --environment e9", "nvidia-h200 has no environment 'e9'"),
    (SYMBOLIC, "needs --device"),
    (f"{SYMBOLIC} --device nvidia-b400", "torchao lists amd-mi300x, nvidia-b200, nvidia-b300"),
    ("predict --symbolic --device h200", "model calibrated has no expression: use --by torchao"),
    *((f"{SYMBOLIC} --device h100-sxm {options}", says) for options, says in (
        ("--linear --role input", "not --role too"),
        ("--inference --fused", "--fused needs --linear or --role"),
        ("--m 4", "needs --k --n too"),
        ("--recipe tensorwize", "did you mean 'tensorwise'? known: bf16, bl"),
        ("--role x --recipe rowwise", "known: grad_output, input, weight"),
        ("--constants x", "known: datasheet, torchao-0.18.0, torchao-2025"),
    )),
]  # fmt: skip
POINT = "predict --device made-up --m 16 --n 4096 --k 8192"
BLOCK = (
    "predict --op transformer_block --device h200 --by datasheet --tokens 4096 --sequence 2048 "
    "--hidden 4096 --intermediate 14336 --heads 32 --head-dim 128"
)
LINEAR = "breakeven --device made-up --casts none --n 4096 --k 4096 --recipe"
OF_A_CHECKOUT = [
    ("predict --device made-p", "did you mean 'made-up'"),
    ("predict --device nvidia-b200", "device 'nvidia-b200', and no card"),
    ("predict --device made-up --op cast 64x64",
     "op cast needs --recipe, one of: fp8_tensorwise, fp8_rowwise_dim0"),
    ("predict --device made-up --op cast --recipe mxfp8_dim0 64x64",
     "it knows no casts mxfp8_dim0 there"),
    (f"{POINT} --op attention", "linear, mixed_gemm, norm_linear_sigmoid"),
    (f"{POINT} --recipe bf61", "did you mean 'bf16'"),
    (f"{POINT} --by calibrated@e1", "--environment e1"),
    ("predict --device made-up --m 4", "op gemm needs --n --k"),
    *((f"{POINT} --by {model}", "there is no config/devices/made-up.yaml")
      for model in ("datasheet", "wave")),
    (BLOCK, "error: op transformer_block needs --kv-heads\n"),
    (f"{BLOCK} --kv-heads 5", "no transformer_block has these sizes: heads=32 is no multiple of"),
    (f"{BLOCK} --kv-heads 8 --sequence 3000", "tokens=4096 is no multiple of sequence=3000"),
    (f"{BLOCK} --kv-heads 8 --head-dim 127", "head_dim=127 is odd"),
    (f"{BLOCK} --kv-heads 8 --hidden {1 << 24}", "does not fit nvidia-h200"),
    ("breakeven --device made-up --casts none --recipe fp8_tensorwise 64x65",
     "with k in multiples of 16, got k=65"),
    (f"{LINEAR} fp8_tensorwize", "did you mean 'fp8_tensorwise'"),
    (f"{LINEAR} int4_g128", "packs the weights, which serves inference alone: `advise` ranks it"),
    (f"{POINT} --recipe int4_g128", "did you mean 'int4_groupwise_g128'? (with --op mixed_gemm)"),
    (f"{LINEAR} fp8_tensorwise --by wishful", "unknown model 'wishful'; there are"),
    ("advise --device made-up --recipes fp8_tensorwise 64x4096x4096",
     "ranked for 64x4096x4096: fp8_tensorwise: only its products are known, not the casts"),
    ("calibrate --run no --out x", "no such records file"),
    ("learning --run no", "no/environment.jsonl: no such records file"),
    ("table --device nothing --op gemm", "nothing"),
    ("export --device made-up --format cvs", "did you mean 'csv'"),
    ("export --device made-up --format torchao",
     "format torchao: the calibration of made-up in e1 has no constant 'gemm.<provider>"),
    ("export --device made-up --format aiconfigurator", "needs the datasheet of made-up"),
    ("verify config", "config: is no publication"),
    ("verify", "nothing is published there"),
    ("publish --again results", "results: is no publication"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "says"), OF_WORDS, ids=lambda text: text[:60])
def test_words_that_do_not_go_together(command: str, says: str, shell: Shell) -> None:
    assert says in shell.refused(command)
    assert shell.err.count("\n") == 1


@pytest.mark.usefixtures("published_alone")
@pytest.mark.parametrize(("command", "says"), OF_PUBLICATIONS, ids=lambda text: text[:60])
def test_a_question_that_publications_do_not_answer(command: str, says: str, shell: Shell) -> None:
    assert says in shell.refused(command)
    assert shell.err.count("\n") == 1


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(("command", "says"), OF_A_CHECKOUT, ids=lambda text: text[:60])
def test_a_question_that_a_checkout_does_not_answer(command: str, says: str, shell: Shell) -> None:
    assert says in shell.refused(command)
    assert shell.err.count("\n") == 1


def test_a_folder_that_cannot_be_written_and_a_plan_of_another_machine_are_named(
    checkout: Path, shell: Shell
) -> None:
    (checkout / "file").write_text("in the way")
    assert "file" in shell.refused("export --device made-up --format csv --out file/c.csv")
    write_records(checkout / "environment.jsonl", [ENVIRONMENT])
    measure = "measure --plan p.jsonl --journal j.jsonl --out m.jsonl --timing '{}'"
    assert ENVIRONMENT.device in shell.refused(f"{measure} --environment environment.jsonl")
    assert not (checkout / "m.jsonl").exists()


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"measure", "health"}))
def test_no_word_ends_in_a_traceback(command: str) -> None:
    """Any exception but the end of the program would fail here."""
    option = {"llm": "--model", "table": "--op", "predict": "--points", "advise": "--shapes"}
    asks_a_device = command in ("advise", "breakeven", "judge", "predict")
    for word in ODD_WORDS:
        of_device = [[word, "--device", "made-up"]] if asks_a_device else []
        for words in ([word], [option.get(command, "--device"), word], *of_device):
            try:
                code = main([command, *words])
            except SystemExit as stopped:
                code = int(stopped.code or 0)
            assert code in (0, 1, 2, 3), words


@pytest.mark.parametrize("command", ["predict", "advise"])
def test_an_answer_from_a_disturbed_machine_says_so_in_one_line(
    checkout: Path, command: str, shell: Shell
) -> None:
    asked = f"{command} --device made-up 16x4096x8192"
    published = checkout / "reports/published/made-up/e1/calibration.jsonl"
    quiet = read_single_record(published, Calibration)
    reasons = ("The repeated sentinel of probe_copy moved by 20.0 % in a session.", "Another.")
    shell.text(asked)
    assert "disturbed" not in shell.err
    disturbed = replace(quiet, disturbances=reasons)
    write_records(checkout / "results/made-up/e1/calibration.jsonl", [disturbed])
    shell.text(asked)
    assert shell.err == (
        "warning: results/made-up/e1 was calibrated on a disturbed machine, measure it again: "
        f"{reasons[0]} (and 1 more)\n"
    )
