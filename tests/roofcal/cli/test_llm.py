"""`llm` on the published H200: a table for people, JSON for programs, one message for a mistake."""

import json
import shutil
from pathlib import Path

import pytest

from roofcal.cli.main import main
from tests.paths import ROOT
from tests.roofcal.cli.heavy import heavy_packages_of

H200 = ["llm", "--device", "nvidia-h200"]
EIGHT = [*H200, "--model", "llama3-70b", "--recipe", "fp8_axiswise", "--tp", "8", "--batch", "16"]


@pytest.fixture(autouse=True)
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("roofcal.core.paths.RESULTS", Path("no-results-of-this-machine"))


def test_it_says_operators_throughput_and_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(EIGHT) == 0
    said = capsys.readouterr().out
    assert "llama3-70b (70.6e9 parameters) in fp8_axiswise on 8 x nvidia-h200" in said
    for word in ("first token", "per token", "tokens/s", "largest batch", "all-reduce", "cast"):
        assert word in said


def test_json_is_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EIGHT, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["first_token_low_s"] < answer["first_token_s"] < answer["first_token_high_s"]
    assert {row["operator"] for row in answer["decode"]} > {"qkv", "attention", "all-reduce"}


def test_a_curve_is_lines_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    small = [*H200, "--model", "qwen3-30b-a3b", "--prompt", "30000", "--curve"]
    assert main(small) == 0
    assert "tokens/s each" in capsys.readouterr().out
    assert main([*small, "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["curve"]
    assert [point["batch"] for point in points][:3] == [1, 2, 4]
    assert points[-1]["batch"] == points[0]["largest_batch"]


def test_every_model_of_time_answers_and_says_who_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    steps = {}
    for by in ("calibrated", "wave", "torchao", "datasheet"):
        assert main([*EIGHT, "--by", by, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        steps[by] = answer["decode_step_s"]
        assert answer["by"] == by
        assert answer["products_by"] == ("cublaslt" if by == "calibrated" else "any")
        assert (answer["decode_step_low_s"] is None) == (by != "calibrated")
        assert main([*EIGHT, "--by", by]) == 0
        said = capsys.readouterr().out
        assert ("95 %" in said) == (by == "calibrated")
        assert (f"by {by}, which states no interval" in said) == (by != "calibrated")
    assert steps["datasheet"] == min(steps.values())


@pytest.mark.parametrize("device", sorted(p.stem for p in (ROOT / "config/devices").glob("*.yaml")))
def test_a_datasheet_answers_for_every_device_and_model(
    device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for model in sorted(p.stem for p in (ROOT / "config/models").glob("*.yaml")):
        by = ["--device", device, "--model", model, "--by", "datasheet", "--json"]
        assert main(["llm", *by]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["needed_bytes_per_gpu"] <= answer["usable_bytes_per_gpu"]
        assert 0 < answer["decode_step_s"] < answer["first_token_s"] * answer["pipeline_parallel"]


def test_a_datasheet_answer_imports_no_heavy_package() -> None:
    asked = ["llm", "--model", "llama3-8b", "--device", "nvidia-b200", "--by", "datasheet"]
    assert heavy_packages_of(asked) == set()


def test_a_model_may_be_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    model = "examples/llama-65b.yaml"
    arguments = ["llm", "--model", model, "--device", "amd-mi300x", "--by", "wave"]
    assert main([*arguments, "--tp", "2", "--pp", "4"]) == 0
    assert "llama-65b (65.3e9 parameters) in bf16 on 8 x amd-mi300x" in capsys.readouterr().out


def test_a_sweep_has_every_cut_and_says_which_do_not_fit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [*H200, "--model", "llama3-70b", "--by", "wave", "--sweep"]
    assert main([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    cuts = {(row["tensor_parallel"], row["pipeline_parallel"]) for row in answer["sweep"]}
    cuts |= {(row["tensor_parallel"], row["pipeline_parallel"]) for row in answer["too_large"]}
    assert cuts == {(t, p) for t in (1, 2, 4, 8) for p in (1, 2, 4, 8) if t * p <= 8}
    assert main(arguments) == 0
    assert "tp 1 pp 1: does not fit, one request needs" in capsys.readouterr().out


def test_a_chunk_may_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EIGHT, "--json", "--chunk", "4096"]) == 0
    assert json.loads(capsys.readouterr().out)["chunk_tokens"] == 4096


def test_the_table_of_a_run_is_csv_with_every_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tmp_path / "models"  # all of them take five seconds
    models.mkdir()
    for name in ("llama3-8b", "qwen3-30b-a3b"):
        shutil.copy(ROOT / f"config/models/{name}.yaml", models)
    monkeypatch.setattr("roofcal.core.paths.MODELS", models)
    (run,) = (ROOT / "reports/published/nvidia-h200").iterdir()
    out = tmp_path / "llm.csv"
    assert main(["llm", "--run", str(run), "--out", str(out)]) == 0
    header, *rows = out.read_text().splitlines()
    assert header.startswith("model,recipe,tensor_parallel,pipeline_parallel,")
    assert {row.split(",")[0] for row in rows} == {"llama3-8b", "qwen3-30b-a3b"}


def test_without_model_and_device_it_says_what_it_needs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["llm"]) == 2
    assert "llm needs --device --model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--model", "llama-70b"], "unknown model 'llama-70b'; did you mean 'llama3-70b'?"),
        (["--model", "llama3-8b", "--tp", "3"], "--tp 3 does not divide the 32 heads of llama3-8b"),
        (["--model", "llama3-8b", "--recipe", "fp4"], "it knows bf16, fp8_tensorwise, fp8_axiswis"),
        (
            ["--model", "llama3-8b", "--tp", "8", "--link", "calibrated"],
            "it has: 2 (all_gather), 2 (all_reduce), 4 (all_gather), 4 (all_reduce);",
        ),
        (["--model", "llama3-405b", "--tp", "1"], "does not fit 1 x nvidia-h200 at batch 1: needs"),
        (["--model", "llama3-405b", "--tp", "1"], "141 less 10% in reserve); smallest --tp that f"),
        (["--model", "llama3-8b", "--batch", "9999999"], "fits in no cut of up to 512 GPUs of nvi"),
        (["--model", "llama3-405b", "--sweep", "--gpus", "4"], "give --gpus 8 or more"),
        (["--model", "llama3-8b", "--by", "wave", "--device", "nvidia-l40s"], "no section 'wave'"),
        (
            ["--model", "llama3-8b", "--by", "wave", "--link", "calibrated"],
            "is for --by calibrated",
        ),
        (["--by", "notebook"], "--device does not go with --by notebook"),
        (["--model", "x.yaml"], "x.yaml: cannot be read"),
        (["--model", "llama3-8b", "--device", "nvidia-h20"], "did you mean 'nvidia-h200'?"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*H200, *arguments]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert says in message


def test_a_size_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*EIGHT, "--prompt", "0"])
    assert caught.value.code == 2
    assert "'0' is not a whole number from 1 to 1073741824" in capsys.readouterr().err


def test_a_shard_that_predict_refuses_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    wide = ["--model", "qwen3-30b-a3b", "--recipe", "fp8_axiswise", "--tp", "32"]
    assert main([*H200, *wide]) == 2
    message = capsys.readouterr().err
    assert "--tp 32 leaves 2048 x 24 (n x k) of expert_down of qwen3-30b-a3b on a GPU" in message
    assert "largest --tp whose shards work: 16" in message


def test_a_model_may_be_a_config_of_transformers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "intermediate_size": 3072, "vocab_size": 151936, "tie_word_embeddings": True,
    }  # fmt: skip
    path = tmp_path / "Qwen3-0.6B/config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(config))
    assert main([*H200, "--model", str(path)]) == 0
    assert "Qwen3-0.6B (0.6e9 parameters) in bf16 on 1 x" in capsys.readouterr().out
    path.write_text(json.dumps(config | {"model_type": "rwkv"}))
    assert main([*H200, "--model", str(path.parent)]) == 2
    assert f"error: {path}: model_type: 'rwkv' is no family of" in capsys.readouterr().err
