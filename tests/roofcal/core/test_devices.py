"""The datasheets, how cards are matched to them, and what a mistake in one says."""

import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofcal.core.devices import DeviceSpec, load_device, load_devices, match_device
from roofcal.core.files import parse_yaml
from roofcal.core.yaml_files import ConfigError
from tests.paths import ROOT
from tests.roofcal.models.runs import WAVE

FOLDER = ROOT / "config" / "devices"
SPECS = load_devices(FOLDER)
RAW = {path.stem: parse_yaml(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))}
every_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)

# Dense bf16 operations with fp32 accumulation, per compute unit and clock. Ada and consumer
# Blackwell: GeForce cards run at half the rate of the professional ones.
BF16_PER_CLOCK = {
    "sm_80": 2048, "sm_89": 1024, "sm_90": 4096, "sm_100": 8192, "sm_103": 8192, "sm_120": 1024,
    "gfx942": 2048, "gfx950": 4096,
}  # fmt: skip
PLAUSIBLE = {  # of the devices of 2020-2026, with a margin of about 20 %
    "compute_units": (90, 370),
    "memory_clock_hz": (1e9, 5e9),
    "memory_bus_bits": (320, 9000),
    "dram_bytes_per_s": (0.7e12, 10e12),
    "dram_bytes": (20e9, 350e9),
    "l2_bytes": (25 << 20, 160 << 20),
    "link_bytes_per_s": (30e9, 1100e9),
    "power_limit_w": (280, 1700),
}
PLAUSIBLE_RATE = {  # relative to bf16
    "fp16": (1, 1), "fp8": (1.99, 2.01), "int8": (0.05, 4.01), "fp4": (3.9, 8.1),
    "tf32": (0.49, 0.51), "fp32": (0.02, 0.51), "fp64": (0.0005, 0.13),
}  # fmt: skip


# --- the table ------------------------------------------------------------------------------------


@every_spec
def test_every_value_is_plausible(spec: DeviceSpec) -> None:
    rates = spec.peak_flops_per_s
    assert spec.device in RAW
    for column, (low, high) in PLAUSIBLE.items():
        value = getattr(spec, column)
        assert value is None or low <= value <= high, column
    for dtype, (low, high) in PLAUSIBLE_RATE.items():
        assert low <= rates.get(dtype, low * rates["bf16"]) / rates["bf16"] <= high, dtype
    # bf16 is dense: twice the rate would take a clock of 2.8 GHz, at which nothing here runs.
    per_clock = BF16_PER_CLOCK[spec.architecture] / (2 if "GeForce" in spec.names[0] else 1)
    assert 1.3e9 < rates["bf16"] / spec.compute_units / per_clock < 2.6e9
    assert 100 < rates["bf16"] / spec.dram_bytes_per_s < 450, "the ridge point"


@every_spec
def test_names_rates_and_sources_are_those_of_the_architecture_and_its_vendor(
    spec: DeviceSpec,
) -> None:
    architecture, first = {"nvidia": ("sm_", "NVIDIA "), "amd": ("gfx", "AMD ")}[spec.vendor]
    assert spec.device.startswith(f"{spec.vendor}-")
    assert spec.architecture.startswith(architecture)
    assert all(name.startswith(first) for name in spec.names)
    has_fp4 = spec.architecture in {"sm_100", "sm_103", "sm_120", "gfx950"}
    assert ("fp8" in spec.peak_flops_per_s) == (spec.architecture != "sm_80")
    assert ("fp4" in spec.peak_flops_per_s) == has_fp4
    assert spec.sources.keys() == RAW[spec.device]["values"].keys()
    assert all(re.search(r"\w+.* \(20\d\d[-\d]*\)", text) for text in spec.sources.values())
    if (wave := spec.wave) is not None:
        for dtype, per_clock in wave.matrix_flops_per_clock.items():
            peak = per_clock * wave.clock_hz * wave.compute_units
            assert peak == pytest.approx(spec.peak_flops_per_s[dtype], rel=1e-3), dtype
        assert all(len(source) > 20 for source in spec.wave_sources.values())
        assert len(spec.wave_sources) == 22


def test_halved_rates_say_so_and_are_half() -> None:
    halved = [
        (float(match.group(1)), item["value"])
        for raw in RAW.values()
        for item in raw["values"].values()
        if (match := re.match(r"(\d+) with sparsity, halved", item.get("note", "")))
    ]
    assert len(halved) > 10
    assert all(sparse == 2 * dense for sparse, dense in halved)


def test_no_two_devices_have_the_same_values() -> None:
    def content(spec: DeviceSpec) -> tuple[Any, ...]:
        columns = (getattr(spec, column) for column in PLAUSIBLE)
        return (spec.architecture, *columns, *sorted(spec.peak_flops_per_s.items()))

    same = [
        (a.device, b.device) for a, b in combinations(SPECS.values(), 2) if content(a) == content(b)
    ]
    assert same == []


def test_values_are_converted_to_si_and_the_wave_model_has_those_of_its_device() -> None:
    h200 = load_device(FOLDER / "nvidia-h200.yaml")
    assert h200 == SPECS["nvidia-h200"]
    assert h200.peak_flops_per_s["bf16"] == 989.5e12
    assert h200.peak_flops_per_s["int8"] == 1979e12
    assert (h200.dram_bytes_per_s, h200.dram_bytes) == (4.8e12, 141_000_000_000)
    assert (h200.memory_clock_hz, h200.memory_bus_bits) == (3.201e9, 6016)
    assert (h200.l2_bytes, h200.link_bytes_per_s, h200.power_limit_w) == (62914560, 450e9, 700)
    assert SPECS["nvidia-rtx-4090"].link_bytes_per_s == 32e9
    assert SPECS["nvidia-gb200"].l2_bytes is None
    device = h200.wave
    assert device is not None
    for same in ("compute_units", "dram_bytes_per_s", "dram_bytes", "link_bytes_per_s"):
        assert getattr(device, same) == getattr(h200, same), same
    assert (device.clock_hz, device.lds_bytes, device.launch_s) == (1.83e9, 228 * 1024, 2e-6)
    assert device.link_latency_s == pytest.approx(3.6e-6)
    assert (device.tiles[0], device.softmax_per_clock["exponential"]) == ((64, 16), 16)
    assert WAVE.stream_bytes_per_s == pytest.approx(2e12)
    assert WAVE.l2_bytes_per_clock_and_unit == pytest.approx(80)


# --- matching -------------------------------------------------------------------------------------

H200: dict[str, Any] = {"name": "NVIDIA H200", "compute_units": 132}
CARDS = [  # as drivers describe them: name, compute units, memory clock in MHz, bus in bits
    ("nvidia-a100-sxm-80gb", "NVIDIA A100-SXM4-80GB", 108, 1593, 5120),
    ("nvidia-a100-pcie-80gb", "NVIDIA A100 80GB PCIe", 108, 1512, 5120),
    ("nvidia-h100-sxm", "NVIDIA H100 80GB HBM3", 132, 2619, 5120),
    ("nvidia-h100-pcie", "NVIDIA H100 PCIe", 114, 1593, 5120),
    ("nvidia-h100-nvl", "NVIDIA H100 NVL", 132, 2619, 6144),
    ("nvidia-h200", "NVIDIA H200", 132, 3201, 6016),
    ("nvidia-h200", "NVIDIA H200", 132, 3201, 6144),
    ("nvidia-b200", "NVIDIA B200", 148, 3996, 7680),
    ("nvidia-b200", "NVIDIA B200", 148, 3996, 8192),
    ("nvidia-l40s", "NVIDIA L40S", 142, 9001, 384),
    ("nvidia-rtx-4090", "NVIDIA GeForce RTX 4090", 128, 10501, 384),
    ("nvidia-rtx-5090", "NVIDIA GeForce RTX 5090", 170, 14001, 512),
    ("amd-mi300x", "AMD Instinct MI300X", 304, 1300, 8192),
    ("amd-mi300x", "AMD Instinct MI300X VF", 304, 1300, 8192),
]


@pytest.mark.parametrize(("device", "name", "units", "mhz", "bits"), CARDS)
def test_a_card_as_its_driver_describes_it_is_matched(
    device: str, name: str, units: int, mhz: int, bits: int
) -> None:
    seen: dict[str, Any] = {"memory_clock_hz": mhz * 1e6, "memory_bus_bits": bits}
    matched = match_device(SPECS, name=name, compute_units=units, **seen)
    assert matched == (SPECS[device], "")


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        *(
            ({"name": name}, f"lists the name '{name}'")  # a prefix or a relative of a name
            for name in ("NVIDIA H100", "H200", "NVIDIA H200 SXM", "nvidia h200", "AMD Instinct")
        ),
        (
            {"name": "AMD Instinct MI300X", "compute_units": 38},
            "this 'AMD Instinct MI300X' is not amd-mi300x: it has 38 compute units instead of 304",
        ),
        # The board of 2.4 TB/s whose bandwidth torchao gives to every H100.
        (
            {"name": "NVIDIA H100 80GB HBM3", "memory_clock_hz": 1.875e9, "memory_bus_bits": 5120},
            "memory of 2400 GB/s by clock and bus instead of 3350",
        ),
        (
            {"compute_units": 78, "memory_clock_hz": 1e9, "memory_bus_bits": 6016},
            "it has 78 compute units instead of 132 and memory of 1504 GB/s",
        ),
        ({"memory_clock_hz": 3.40e9, "memory_bus_bits": 6016}, "5114 GB/s"),
        ({"memory_clock_hz": 2.9e9, "memory_bus_bits": 6016}, "4362 GB/s"),
        ({"memory_clock_hz": 3.39e9, "memory_bus_bits": 6016}, ""),  # within six per cent
        ({"memory_clock_hz": 3.00e9, "memory_bus_bits": 6016}, ""),
        ({"memory_clock_hz": 1e9}, ""),  # no bandwidth is known
        ({"memory_bus_bits": 64}, ""),
    ],
)
def test_a_card_that_is_another_one_is_not_matched_and_says_why(
    seen: dict[str, Any], reason: str
) -> None:
    spec, said = match_device(SPECS, **(H200 | seen))
    assert spec == (None if reason else SPECS["nvidia-h200"])
    assert reason in said
    assert bool(reason) == bool(said)


# --- mistakes in a file ---------------------------------------------------------------------------

Edit = Callable[[dict[str, Any]], object]


def write(folder: Path, name: str = "nvidia-h200", edit: Edit = lambda _raw: None) -> Path:
    """A copy of the H200's file, edited."""
    raw = parse_yaml((FOLDER / "nvidia-h200.yaml").read_text()) | {"device": name}
    edit(raw)
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(raw))
    return path


def errors_of(folder: Path, edit: Edit) -> list[str]:
    path = write(folder, edit=edit)
    with pytest.raises(ConfigError) as raised:
        load_device(path)
    lines = str(raised.value).splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


def value(key: str, **changes: object) -> Edit:
    return lambda raw: raw["values"][key].update(changes)


MISTAKES: list[tuple[Edit, str]] = [
    (value("l2_mib", value=float("nan")), "value: Input should be a finite number (got nan)"),
    (value("compute_units", value=True), "value: Input should be a valid integer (got True)"),
    (value("l2_mib", nots="x"), "values.l2_mib.nots: unknown key; did you mean 'note'?"),
    (value("l2_mib", source=["h200-driver"]), "values.l2_mib.source: Input should be a valid str"),
    (value("dram_gb_per_s", value=48), "values.dram_gb_per_s: clock and bus width give 4814"),
    (lambda raw: raw["values"]["l2_mib"].pop("source"), "values.l2_mib.source: missing"),
    (lambda raw: raw["values"].update(l2_mib=60), "values.l2_mib: must be a mapping of keys"),
    (
        lambda raw: raw["sources"].update(idle={"title": "x", "date": 2024}),
        "sources.idle: no value",
    ),
    (lambda raw: raw["sources"].update({2024: {"title": "x", "date": 2024}}), "sources.2024"),
    (lambda raw: raw.update(values=None), "values: must be a mapping of keys"),
    (lambda raw: raw.update(vendor="intel"), "vendor: Input should be 'nvidia' or 'amd'"),
    (lambda raw: raw.update(architecture="sm_91"), "architecture: Input should be 'sm_80'"),
    (lambda raw: raw.update(names=[]), "names: List should have at least 1 item"),
    (lambda raw: raw.update(device="nvidia-h201"), "'nvidia-h201' differs from the file name"),
]


@pytest.mark.parametrize(("edit", "message"), MISTAKES)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, edit: Edit, message: str) -> None:
    assert message in "\n".join(errors_of(tmp_path, edit))


def test_mistakes_of_all_files_are_reported_together_and_no_name_stands_in_two(
    tmp_path: Path,
) -> None:
    write(tmp_path, "a", value("l2_mib", value=-1))
    write(tmp_path, "b", value("memory_gb", value="many"))
    with pytest.raises(ConfigError) as raised:
        load_devices(tmp_path)
    lines = str(raised.value).splitlines()
    assert [Path(line.split(":")[0]).name for line in lines] == ["a.yaml", "b.yaml"]
    write(tmp_path, "a")
    write(tmp_path, "b")
    said = r"b\.yaml: names: 'NVIDIA H200' is a name in a\.yaml too"
    with pytest.raises(ConfigError, match=said):
        load_devices(tmp_path)
    assert load_devices(tmp_path / "none") == {}


def test_all_mistakes_of_a_file_are_named_at_once(tmp_path: Path) -> None:
    def spoil(raw: dict[str, Any]) -> None:
        wave = raw["wave"]
        wave["clock_mzh"] = wave.pop("clock_mhz")
        wave["lds_kib"]["value"] = "132"
        wave["matrix_fraction"]["value"] = 1.5
        del wave["softmax_per_clock"]["value"]["sum"]
        wave["launch_us"]["source"] = "torchoa"
        raw["vendr"] = raw.pop("vendor")
        raw["values"]["memory_gb"]["value"] = -1

    said = "\n".join(errors_of(tmp_path, spoil))
    for message in (
        "wave.clock_mzh: unknown key; did you mean 'clock_mhz'?",
        "wave.clock_mhz: missing, and required",
        "wave.lds_kib.value: Input should be a valid integer (got '132')",
        "wave.matrix_fraction.value: Input should be less than or equal to 1",
        "wave.softmax_per_clock.value.sum: missing, and required",
        "wave.launch_us.source: no source 'torchoa'; did you mean 'torchao'?",
        "vendr: unknown key",
        "vendor: missing",
        "values.memory_gb.value: Input should be greater than 0",
    ):
        assert message in said
    without_link = errors_of(tmp_path, lambda raw: raw["values"].pop("link_gb_per_s"))
    assert "values.link_gb_per_s: missing, and section `wave` needs it" in without_link
