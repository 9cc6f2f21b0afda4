"""AIConfigurator's loaders take the file; its memory operations cost what we measured."""

from dataclasses import replace
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ConfigDict

from roofcal.export.aiconfigurator import write
from roofcal.export.errors import ExportError
from tests.roofcal.export.subjects import h200, measured


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Gpu(Strict):
    """GpuSpec of its Rust core: three numbers are required, the others may be left out."""

    mem_bw: float
    mem_bw_empirical_scaling_factor: float
    mem_empirical_constant_latency: float
    mem_capacity: int | None = None
    bfloat16_tc_flops: float | None = None
    int8_tc_flops: float | None = None
    fp8_tc_flops: float | None = None
    fp4_tc_flops: float | None = None
    power: float | None = None
    sm_version: int | None = None


class Node(Strict):
    num_gpus_per_node: int
    inter_node_bw: float
    intra_node_bw: float
    pcie_bw: float
    p2p_latency: float


class Misc(Strict):
    """What PerfDatabase looks up under misc, and the words of h200_sxm.yaml."""

    nccl_mem: dict[int, int]
    other_mem: int
    nccl_version: str
    vendor: str
    architecture: str
    name: str


class System(Strict):
    """The keys of systems/h200_sxm.yaml at 43bee4b805ae, read with yaml.SafeLoader."""

    data_dir: str
    gpu: Gpu
    node: Node
    misc: Misc

    def query_mem_op(self, count: int) -> float:
        """Milliseconds of a memory operation, as PerfDatabase has them outside of SOL mode."""
        rate = self.gpu.mem_bw * self.gpu.mem_bw_empirical_scaling_factor
        return (count / rate + self.gpu.mem_empirical_constant_latency) * 1000

    def tc_flops(self, compute: int) -> float:
        """_get_quant_tc_flops of its GEMM operation; compute is 1, 2 or 4."""
        key = {1: "bfloat16_tc_flops", 2: "fp8_tc_flops", 4: "fp4_tc_flops"}[compute]
        rates: dict[str, Any] = self.gpu.model_dump(exclude_none=True)
        return float(rates.get(key, rates["bfloat16_tc_flops"] * compute))


def system() -> System:
    return System.model_validate(yaml.load(write(h200()), Loader=yaml.SafeLoader))


def test_a_memory_operation_takes_our_bandwidth_and_launch() -> None:
    copy, launch = measured("dram_copy_bytes_per_s"), measured("launch_graph_s")
    expected = (1e9 / copy + launch) * 1000
    assert system().query_mem_op(10**9) == pytest.approx(expected, rel=1e-12)


def test_its_speed_of_light_is_that_of_the_datasheet() -> None:
    found = system()
    assert (found.gpu.mem_bw, found.tc_flops(1), found.tc_flops(2)) == (4.8e12, 989.5e12, 1979e12)
    assert found.node.intra_node_bw == 450e9
    assert (found.gpu.sm_version, found.gpu.mem_capacity) == (90, 150754820096)


def test_it_finds_its_own_tables_of_the_same_card() -> None:
    assert (system().data_dir, system().misc.name) == ("data/h200_sxm", "NVIDIA H200")
    other = replace(h200(), calibration=replace(h200().calibration, device="nvidia-h300"))
    assert write(other).splitlines()[4].startswith("data_dir: data/nvidia-h300  #")


def test_what_is_not_ours_says_so() -> None:
    lines = [line for line in write(h200()).splitlines() if "not ours" in line]
    found = {line.split(":")[0].strip() for line in lines}
    ours = {"intra_node_bw"}
    assert found == (set(Node.model_fields) - ours) | {"nccl_mem", "other_mem", "nccl_version"}


@pytest.mark.parametrize(
    ("launch_s", "text"), [(5e-7, "5.0e-07"), (6.673e-7, "6.673e-07"), (0.25, "0.25")]
)
def test_small_numbers_are_numbers_in_yaml(launch_s: float, text: str) -> None:
    """PyYAML reads 5e-07 as text."""
    found = h200().calibration
    launch = replace(found.constants["launch_graph_s"], value=launch_s)
    constants = {**found.constants, "launch_graph_s": launch}
    written = write(replace(h200(), calibration=replace(found, constants=constants)))
    assert f"mem_empirical_constant_latency: {text}  #" in written
    assert yaml.safe_load(written)["gpu"]["mem_empirical_constant_latency"] == launch_s


def test_other_vendors_have_no_sm_version() -> None:
    sheet = h200().sheet
    subject = replace(h200(), spec=replace(sheet, vendor="amd", architecture="gfx942"))
    with pytest.raises(ExportError, match="describes GPUs by their sm_version"):
        write(subject)
