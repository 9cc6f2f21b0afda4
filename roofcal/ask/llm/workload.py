"""What is asked for: a model in a recipe on so many GPUs, and the requests it serves."""

from dataclasses import dataclass
from typing import Final

from roofcal.core.language_models import LanguageModel
from roofcal.models.link import Source

CHUNK: Final = 8192  # tokens of one prefill pass; vLLM and SGLang set it so on large GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Requests that arrive together; all numbers are above zero.

    prompt, output  tokens of each request
    chunk           most tokens of one prefill pass: longer prompts are cut, short ones joined
    """

    batch: int
    prompt: int
    output: int
    chunk: int = CHUNK

    @property
    def prefill_passes(self) -> int:
        """Passes that the prompts take."""
        return -(-self.batch * self.prompt // self.chunk)

    @property
    def longest_context(self) -> int:
        """Cached tokens of a request when it ends."""
        return self.prompt + self.output

    @property
    def mean_context(self) -> float:
        """Cached tokens of a request half-way through its output."""
        return self.prompt + self.output / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A workload and what it runs on: tensor x pipeline GPUs of one device."""

    model: LanguageModel
    recipe: str
    tensor: int
    pipeline: int
    workload: Workload
    link: Source = "auto"

    @property
    def gpus(self) -> int:
        """GPUs that hold the model once."""
        return self.tensor * self.pipeline
