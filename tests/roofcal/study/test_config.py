"""Every mistake in config/ is named with file and key, all of them together."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from roofcal.core.files import parse_yaml
from roofcal.core.language_models import load_model, load_models
from roofcal.core.yaml_files import ConfigError
from roofcal.study.config import load_study
from tests.paths import ROOT

CONFIG = ROOT / "config"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(CONFIG, tmp_path / "config")
    return tmp_path / "config"


def edit(path: Path, *keys: str, value: Any) -> None:
    """Set a key deep in a YAML file, which is written as JSON, because that takes no time."""
    content = parse_yaml(path.read_text())
    place = content
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path.write_text(json.dumps(content, default=str))


def errors(folder: Path, **overrides: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load_study(folder, overrides)
    return str(caught.value)


def test_the_projects_configuration_is_valid_in_every_size() -> None:
    for size in ("minute", "quick", "standard", "full"):
        study = load_study(CONFIG, {"study": size})
        assert study.ops[:3] == ("probe_launch", "probe_copy", "probe_math")
        left_out = [op for op in study.ops if not study.op_slice(op, "cuda")["sweeps"]]
        slow = ["probe_link", "norm_linear_sigmoid", "transformer_block", "all_gather_matmul"]
        products = ["cast", "mixed_gemm", "linear"]
        assert set(left_out) == {
            "minute": {*slow, *products},
            "quick": set(slow),
            "standard": {"transformer_block"},
            "full": set(),
        }[size]  # fmt: skip


# fmt: off
MISTAKES: list[tuple[str, tuple[str, ...], Any, str]] = [
    ("config.yaml", ("study",), "large", "study: Input should be 'minute', 'quick', 'standard' or"),
    ("config.yaml", ("studdy",), "quick", "studdy: unknown key; did you mean 'study'?"),
    ("config.yaml", ("timing", "cpu", "slice"), 1, "did you mean 'slice_s'?"),
    ("config.yaml", ("ops",), ["gem"], "unknown op 'gem'; did you mean 'gemm'?"),
    ("config.yaml", ("ops",), [], "ops: is empty"),
    ("config.yaml", ("publish", "per_op"), {"gem": 0.1}, "unknown op 'gem'; did you mean"),
    ("claims/deepgemm.yaml", ("ledger",), "deep", "'deep' differs from the file name"),
    ("config.yaml", ("devices",), "nvidia-h200/x", "give \"auto\" or a list"),
    ("config.yaml", ("shapes_csv",), "no.csv", "shapes_csv: no such file 'no.csv'"),
    ("sweeps/gemm.yaml", ("op",), "gemmm", "op: 'gemmm' differs from the file name"),
    ("sweeps/gemm.yaml", ("contenders", "cuda", "bf61"), ["cublaslt"], "did you mean 'bf16'?"),
    ("sweeps/gemm.yaml", ("contenders", "cuda", "bf16"), ["cublas"], "unknown provider"),
    ("sweeps/gemm.yaml", ("sweeps", "ragged", "world_sizes"), [2],
     "sweeps.ragged.world_sizes: op 'gemm' runs on one device; remove the key"),
    ("sweeps/gemm.yaml", ("recipes",), {"mine": {}}, "recipes: op 'gemm' takes none; its"),
    ("sweeps/linear.yaml", ("recipes", "mxfp8"), {}, "mxfp8: is the name of another recipe"),
    ("sweeps/linear.yaml", ("recipes", "axiswise_two_level_grad_weight", "grad_input", "w"),
     "blockwise",
     "grad_input, operand w: wanted tensorwise or axiswise (no product takes anything else beside "
     "grad_out axiswise), got blockwise"),
    ("sweeps/linear.yaml", ("sweeps", "square", "recipes"), ["axiswise_two_levels"],
     "sweeps.square.recipes: unknown recipe 'axiswise_two_levels'; did you mean"),
    ("sweeps/gemm.yaml", ("sweeps", "square"), {"cubes": []}, "an empty sweep"),
    ("sweeps/gemm.yaml", ("sweeps", "square"), {}, "needs exactly one of"),
    ("sweeps/gemm.yaml", ("sweeps", "square"), {"shapes": [[1, 2]]}, "needs m, n, k"),
    ("sweeps/gemm.yaml", ("sweeps", "square"), {"grid": {"m": [1]}}, "axis n, k has no values"),
    ("sweeps/gemm.yaml", ("sweeps", "square"), {"grid": {"q": [1]}}, "unknown axis 'q'"),
    ("sweeps/gemm.yaml", ("studies", "quick", "cuda"), ["squar"], "did you mean 'square'?"),
    ("sweeps/cast.yaml", ("sweeps", "x"),
     {"layers": {"models": ["gpt"], "tensor_parallel": [1], "tokens": [1]}}, "unknown model 'gpt'"),
    ("models/llama3-8b.yaml", ("architecture", "heads"), 40, "file: matrices.qkv.n is 6144"),
    ("models/llama3-8b.yaml", ("architecture", "kv_heads"), 5,
     "32 heads cannot share 5 key/value heads"),
    ("models/llama3-8b.yaml", ("architecture", "experts"), {"count": 4, "per_token": 2},
     "missing: expert_down, expert_gate_up"),
    ("models/llama3-8b.yaml", ("architecture", "experts"),
     {"count": 4, "per_token": 2, "dense_layers": 32}, "leaves no layer of 32"),
    ("models/llama3-8b.yaml", ("architecture", "experts"), {"count": 8, "per_token": 9},
     "per_token is 9, and there are 8 experts"),
    ("models/llama3-8b.yaml", ("architecture", "latent"), {"latent": 8, "rope": 4, "value": 8},
     "missing: kv_down, kv_up, q_down, q_up"),
    ("sweeps/gemm.yaml", ("sweeps", "x"),
     {"blocks": {"models": ["llama3-8b"], "tokens": [4096], "sequence": 4096}},
     "sweeps.x.blocks: op 'gemm' has no shape for a block; use grid or shapes"),
    ("sweeps/transformer_block.yaml", ("sweeps", "x"),
     {"blocks": {"models": ["llama3-8b"], "tokens": [4096], "sequence": 4000}},
     "sweeps.x.blocks: 4096 tokens are no whole sequences of 4000"),
    ("config.yaml", ("timing_of_study",), {"quick": {"visit": 1}},
     "timing_of_study.quick.visit: Extra inputs"),
    ("config.yaml", ("timing_of_study",), {"small": {"visits": 1}}, "timing_of_study.small"),
    ("sweeps/gemm.yaml", ("contenders", "tpu"), {},
     "contenders.tpu.[key]: Input should be 'cuda' or 'cpu'"),
    ("sweeps/gemm.yaml", ("sweeps", "square"), {"cubes": [1], "shapes": [[1, 1, 1]]},
     "needs exactly one of"),
]
# fmt: on


@pytest.mark.parametrize(("file", "keys", "value", "says"), MISTAKES)
def test_a_mistake_is_named_with_file_and_key(
    folder: Path, file: str, keys: tuple[str, ...], value: Any, says: str
) -> None:
    edit(folder / file, *keys, value=value)
    message = errors(folder)
    assert says in message
    assert str(folder / file) in message


def test_an_override_replaces_its_key_alone(folder: Path) -> None:
    study = load_study(folder, {"timing": {"cpu": {"budget_s": 0.125}}})
    assert study.timing("cpu")["budget_s"] == 0.125
    assert study.timing("cpu")["slice_s"] == load_study(folder).timing("cpu")["slice_s"]
    assert study.timing("cuda") == load_study(folder).timing("cuda")


def test_comments_and_architectures_of_models_change_no_slice(folder: Path) -> None:
    before = [load_study(folder).op_slice(op, "cuda") for op in ("gemm", "cast")]
    path = folder / "sweeps/gemm.yaml"
    path.write_text("# a comment\n" + path.read_text())
    edit(folder / "models/llama3-70b.yaml", "architecture", "layers", value=79)
    assert [load_study(folder).op_slice(op, "cuda") for op in ("gemm", "cast")] == before


def test_a_users_csv_becomes_a_sweep_of_gemm(folder: Path, tmp_path: Path) -> None:
    shapes = tmp_path / "mine.csv"
    shapes.write_text("m,n,k\n1,2,3\n")
    study = load_study(folder, {"shapes_csv": str(shapes)})
    assert study.op_slice("gemm", "cpu")["sweeps"]["csv"]["csv"] == str(shapes)
    assert "csv" not in study.op_slice("cast", "cpu")["sweeps"]


def test_models_are_read_by_name_and_an_unknown_one_is_answered_with_the_nearest(
    folder: Path,
) -> None:
    assert load_model(folder / "models", "llama3-8b").matrices["qkv"].n == 6144
    found = load_models(folder / "models")
    assert {"llama3-8b", "deepseek-v3", "qwen3-30b-a3b"} <= set(found)
    assert all(model.model == name for name, model in found.items())
    with pytest.raises(ConfigError, match=r"unknown model 'llama3-70'; did you mean 'llama3-70b'"):
        load_model(folder / "models", "llama3-70")
    edit(folder / "models/llama3-8b.yaml", "architecture", "layers", value=0)
    with pytest.raises(ConfigError, match=r"llama3-8b.yaml: architecture.layers: Input should be"):
        load_model(folder / "models", "llama3-8b")


def test_a_recipe_that_is_written_down_is_planned_as_one_line(folder: Path) -> None:
    path, name = folder / "sweeps/linear.yaml", "axiswise_two_level_grad_weight"
    edit(path, "sweeps", "square_cpu", "recipes", value=["bf16", name])
    plan = load_study(folder).op_slice("linear", "cpu")
    line = "axiswise*axiswise+axiswise*tensorwise+axiswise*axiswise@two_level"
    assert plan["contenders"][line] == ["torch_cpu"]
    assert plan["sweeps"]["square_cpu"]["recipes"] == ["bf16", line]
    edit(
        path,
        "recipes",
        name,
        value=dict.fromkeys(("output", "grad_input", "grad_weight"), "axiswise"),
    )
    assert load_study(folder).op_slice("linear", "cpu")["sweeps"]["square_cpu"]["recipes"] == [
        "bf16",
        "fp8_axiswise",  # what it is, it is called
    ]


def test_a_size_of_the_study_may_have_a_timing_of_its_own() -> None:
    changes = {"timing_of_study": {"quick": {"visits": 1, "more_visits": 0}}}
    quick = load_study(CONFIG, changes).timing("cpu")
    standard = load_study(CONFIG, {"study": "standard", **changes}).timing("cpu")
    assert (quick["visits"], standard["visits"]) == (1, 2)
    assert quick["budget_s"] == standard["budget_s"]


def test_all_mistakes_of_all_files_are_reported_together(folder: Path) -> None:
    edit(folder / "config.yaml", "seeds", value=1)
    edit(folder / "sweeps/cast.yaml", "sweeps", "square", value={"cubes": [0]})
    edit(folder / "models/qwen3-32b.yaml", "matrices", value={})
    message = errors(folder, published="perhaps")
    named = ("config.yaml: seeds", "cast.yaml: sweeps.square", "qwen3-32b.yaml: matrices")
    for part in (*named, "config.yaml: published"):
        assert part in message
