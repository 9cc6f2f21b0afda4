"""Deployments of the models of config/models on a made-up GPU with a link."""

from dataclasses import replace
from typing import Any

from roofcal.ask.llm.deployment import Deployment
from roofcal.ask.llm.operator_times import AttentionWork
from roofcal.core.language_models import LanguageModel, load_model
from roofcal.core.records import Calibration
from roofcal.models.wave.attention import Attention
from roofcal.ops.time_models import Sources
from tests.paths import ROOT
from tests.roofcal.made_up_records import exactly
from tests.roofcal.models.runs import SPEC, calibration

MODELS = ROOT / "config/models"
LINKED = replace(SPEC, link_bytes_per_s=450e9)
READ = exactly(4.5e12, "B/s", half=0.1e12)


def model(name: str = "llama3-8b") -> LanguageModel:
    return load_model(MODELS, name)


def calibrated(**links: float) -> Calibration:
    """The made-up calibration with a read bandwidth, and link constants by name."""
    bare = calibration()
    constants = {**bare.constants, "dram_read_bytes_per_s": READ}
    constants |= {f"link.{name.replace('__', '.')}": exactly(v) for name, v in links.items()}
    return replace(bare, constants=constants)


SOURCES = Sources(calibration=calibrated(), spec=LINKED)


def deployment(
    name: str = "llama3-8b", recipe: str = "bf16", tp: int = 1, pp: int = 1, **load: Any
) -> Deployment:
    return Deployment(model=model(name), recipe=recipe, tensor=tp, pipeline=pp, **load)


def attention_work(flops: float, read_bytes: float) -> AttentionWork:
    """One head of one token that attends to itself, whatever its operations and bytes."""
    shape = Attention(heads=1, kv_heads=1, head_dim=128, query_tokens=1, kv_tokens=1)
    return AttentionWork(flops=flops, read_bytes=read_bytes, shape=shape)
