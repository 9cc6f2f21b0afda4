"""What a workload implies."""

import pytest

from tests.roofcal.ask.llm.questions import question


@pytest.mark.parametrize(
    ("batch", "prompt", "passes"), [(1, 1, 1), (4, 2048, 1), (5, 2048, 2), (1, 8193, 2)]
)
def test_prompts_are_joined_and_cut_to_passes(batch: int, prompt: int, passes: int) -> None:
    assert question(batch=batch, prompt=prompt).workload.prefill_passes == passes


def test_contexts() -> None:
    load = question(prompt=100, output=50).workload
    assert (load.mean_context, load.longest_context) == (125, 150)


def test_gpus_are_the_product_of_the_degrees() -> None:
    assert question(tp=4, pp=2).gpus == 8
