"""A hundred files, folders and arguments that somebody hostile or unlucky could hand to roofcal.

Each is a change of a sound checkout and a command that meets it. The command must end with the
exit code of the table and one message that holds `says`: no traceback, nothing executed, nothing
written outside of the checkout, no secret printed, at most 1 GB of memory.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from roofcal.core.manifest import write_manifest
from tests.campaign.changes import (
    Change,
    both,
    edited,
    inserted,
    linked,
    nothing,
    packed,
    pipe,
    put,
    record,
    renamed,
)
from tests.campaign.scratch import PUBLISHED, RUN
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT

VERIFY: Final = ("verify", "--quick", PUBLISHED)
REPORT: Final = ("report", "--run", RUN, "--out", "out/report.html")
TABLE: Final = ("table", "--device", "made-up", "--op", "gemm")
CALIBRATE: Final = ("calibrate", "--run", RUN, "--out", "out/calibration.jsonl")
PREDICT: Final = ("predict", "--device", "made-up", "--m", "512", "--n", "512", "--k", "512")
PREDICT_RUN: Final = ("predict", "--run", RUN, "--op", "gemm", "--out", "out/gemm.jsonl")
POINTS: Final = ("predict", "--device", "made-up", "--points", "points.csv")
BREAKEVEN: Final = ("breakeven", "--device", "nvidia-h200", "--by", "datasheet", "--recipe")
LLM: Final = ("llm", "--model", "llama3-8b", "--device", "made-up")
STUDY: Final = ("plan", "--study", "quick", "--op", "gemm")
PUBLISH: Final = ("publish", "--run", RUN)
CLAIMS: Final = ("claims", "--device", "made-up")
COMPARE: Final = ("compare", RUN, PUBLISHED)
EXPORT: Final = ("export", "--device", "made-up", "--format", "csv")

ENVIRONMENT_FILE: Final = f"{RUN}/environment.jsonl"
CALIBRATION: Final = f"{RUN}/calibration.jsonl"
GEMM: Final = f"{RUN}/measurements/gemm.jsonl"
MATH: Final = f"{RUN}/measurements/probe_math.jsonl"
GEMM_PLAN: Final = f"{RUN}/plan/gemm.jsonl"
PREDICTIONS: Final = f"{RUN}/predictions/gemm.jsonl"
FROZEN: Final = f"{PUBLISHED}/measurements/gemm.jsonl.gz"
CONFIG: Final = "config/config.yaml"
SWEEP: Final = "config/sweeps/gemm.yaml"
DEVICE: Final = "config/devices/made-up.yaml"
MODEL: Final = "config/models/llama3-8b.yaml"
LEDGER: Final = "config/claims/deepgemm.yaml"
DEEP: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """A change of a sound checkout, the command that meets it, and how the command must end.

    says  part of its one message
    code  2 for what is refused, 0 for what does no harm
    """

    name: str
    change: Change
    command: Sequence[str]
    says: str
    code: int = 2


def plan(op_slice: Mapping[str, Any] | str) -> tuple[str, ...]:
    """The command that plans a slice for the made-up device."""
    text = op_slice if isinstance(op_slice, str) else json.dumps(op_slice)
    command = ("plan", "--op", "gemm", "--environment", ENVIRONMENT_FILE, "--slice", text)
    return (*command, "--out", "out/plan.jsonl")


def measure(timing: str) -> tuple[str, ...]:
    """The command that measures the plan with a timing protocol."""
    command = ("measure", "--plan", GEMM_PLAN, "--environment", ENVIRONMENT_FILE)
    return (*command, "--journal", "out/j.jsonl", "--out", "out/m.jsonl", "--timing", timing)


def sliced(**sweep: Any) -> dict[str, Any]:
    """A slice of op gemm with one sweep."""
    return {"op": "gemm", "seed": 0, "contenders": {"bf16": ["cublaslt"]}, "sweeps": {"s": sweep}}


_BOMB: Final = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
_HIGH: Final = 10**9
_NESTED_JSON: Final = "[" * DEEP
_FORMULA: Final = "=cmd|' /C calc'!A0"
_STEERING: Final = "\x1b]0;title\x07\x9b2J\u202e"  # what a terminal obeys


def to_secret(path: str) -> Change:
    """Replace a file of the checkout by a link to the secret beside it."""
    return linked(path, "../" * (path.count("/") + 1) + "secret")


def sample(text: str) -> Change:
    """Put a sample before the first ones of op gemm."""
    return edited(GEMM, '"latency_samples_s":[', f'"latency_samples_s":[{text},')


def constant(name: str, **values: Any) -> Change:
    """A calibration with one constant."""
    known = {"value": 1, "ci95_low": 1, "ci95_high": 1, "unit": "B/s", "evidence": ""}
    return record(CALIBRATION, constants={name: known | values})


def cases(by_name: Mapping[str, tuple[Any, ...]]) -> list[Hostile]:
    """Name -> change, command, what its message says, and the exit code where it is not 2."""
    names = ("change", "command", "says", "code")
    return [
        Hostile(name=name, **dict(zip(names, of_case, strict=False)))
        for name, of_case in by_name.items()
    ]


def cases_of(
    command: Sequence[str], says: str | None, by_name: Mapping[str, Any], code: int = 2
) -> list[Hostile]:
    """The same of one command: name -> change; without a common `says`: (change, says)."""
    pairs = {name: one if says is None else (one, says) for name, one in by_name.items()}
    return cases({name: (change, command, s, code) for name, (change, s) in pairs.items()})


_NO_CALIBRATION: Final = both(
    linked(CALIBRATION, "/etc/passwd"), linked(f"{PUBLISHED}/calibration.jsonl", "/etc/passwd")
)

# fmt: off
BYTES: Final = [
    *cases_of(REPORT, "gemm.jsonl:2", {
        "a byte that is no UTF-8 in records": inserted(GEMM, b"\xff"),
        "an integer of 5,000 digits": inserted(GEMM, b"9" * 5000),
        "half a record": inserted(GEMM, b'{"record": "Measu'),
        "a record of no kind": inserted(GEMM, b'{"record": "Evil"}'),
        "a record that is a list": inserted(GEMM, b"[1, 2]"),
    }),
    *cases({
        "a NUL in records": (inserted(GEMM, b"\0" * 9), TABLE, "gemm.jsonl:2"),
    }),
    *cases_of(REPORT, None, {
        "200,000 [ in a line": (inserted(GEMM, b"[" * DEEP), "nested too deeply"),
        "200,000 objects within each other": (inserted(GEMM, b'{"a":' * DEEP), "nested"),
        "a line of 10 MB": (inserted(GEMM, b"x" * 10_000_000), "in a line"),
        "an empty environment": (put(ENVIRONMENT_FILE, b""), "environment.jsonl"),
    }),
    *cases_of(VERIFY, None, {
        "an archive cut off": (lambda c: os.truncate(c / FROZEN, 400), "cut off"),
        "an archive that is none": (put(FROZEN, b"no gzip"), "damaged"),
        "an empty archive": (put(FROZEN, b""), "gemm.jsonl.gz"),
    }),
    *cases({
        "an empty environment to plan for": (put(ENVIRONMENT_FILE, ""), plan({}), "environment"),
        "an empty calibration": (put(CALIBRATION, b""), PREDICT_RUN, "calibration.jsonl"),
        "UTF-16 configuration": (put(CONFIG, "study: quick".encode("utf-16")), STUDY, CONFIG),
        "a byte order mark before a CSV":
            (put("points.csv", "\ufeffrecipe,m,n,k\nbf16,512,512,512\n"), (*POINTS, "--by",
             "calibrated"), "bf16,512,512,512", 0),
    }),
]

SIZES: Final = [
    *cases_of(STUDY, None, {
        "YAML whose aliases stand for 10^9": (put(CONFIG, _BOMB), "aliases"),
        "YAML with an alias of itself": (put(CONFIG, "a: &a [*a]"), CONFIG),
        "YAML nested 5,000 deep": (put(CONFIG, "a: " + "[" * 5000), "levels"),
        "YAML of 4 MB": (put(CONFIG, "# x\n" * 2**20), "the most that is read"),
        "YAML with 4 MB of one key": (put(SWEEP, f"op: {'g' * 2**22}"), "gemm.yaml"),
        "a config that is /dev/zero": (linked(CONFIG, "/dev/zero"), CONFIG),
    }),
    *cases_of(VERIFY, None, {
        "gzip that unpacks to 2 GB": (packed(FROZEN, (b" " * 2**20, 2048)), "in a line"),
        "gzip of numbers alone": (packed(FROZEN, (b'{"a":[', 1), (b"1," * 2**19, 12)), "gz"),
        "gzip of empty lines": (packed(FROZEN, (b"\n" * 2**20, 200)), "unpacks"),
        "a million bad lines": (packed(FROZEN, (b"{}\n", 1_000_000)), "gemm.jsonl.gz"),
        "a publication of 20,000 files":
            (both(*(put(f"{PUBLISHED}/x/{number}", "") for number in range(20_000))), "files"),
        "a manifest nested 200,000 deep":
            (put(f"{PUBLISHED}/manifest.json", _NESTED_JSON), "manifest.json"),
        "a manifest with a number of 5,000 digits":
            (put(f"{PUBLISHED}/manifest.json", "9" * 5000), "manifest.json"),
    }),
    *cases({
        "points from /dev/zero": (nothing, (*POINTS[:3], "--points", "/dev/zero"), "/dev/zero"),
        "a grid of 10^9 points":
            (nothing, plan(sliced(grid={a: [*range(1, 1001)] for a in "mnk"})), "points"),
        "10^9 random shapes":
            (nothing, plan(sliced(log_uniform={"count": _HIGH, "seed": 0, "low": 1, "high": 9})),
             "count"),
        "random shapes that none can be":
            (nothing, plan(sliced(log_uniform={"count": 9, "seed": 0, "low": 512, "high": 1024,
             "max_flops": 1.0})), "max_flops"),
        "a sweep of a cube of 10^300": (nothing, plan(sliced(cubes=[10**300])), "cubes"),
    }),
    *cases_of(POINTS, None, {
        "CSV with a cell of 1 MB":
            (put("points.csv", f"recipe,m,n,k\n{'x' * 2**20},1,1,1\n"), "points.csv"),
        "CSV with 200,000 bad rows":
            (put("points.csv", "recipe,m,n,k\n" + "x,1,1,1\n" * 200_000), "more"),
        "CSV with 500,000 columns": (put("points.csv", "a," * 500_000 + "\n1\n"), "points.csv:1"),
    }),
    *cases({
        "a sample count of 10^18":
            (record(GEMM, calls_per_sample=10**18), REPORT, "calls_per_sample"),
    }),
]

NAMES: Final = [
    *cases_of(REPORT, "environment.jsonl:1", {
        "a device that leaves --out": record(ENVIRONMENT_FILE, device="../../../evil"),
        "a device that is an absolute path": record(ENVIRONMENT_FILE, device="/tmp/evil"),
        "a torch version that is a path": record(ENVIRONMENT_FILE, torch="../../x"),
        "a driver version with a command": record(ENVIRONMENT_FILE, driver="$(touch PWNED)"),
    }),
    *cases({
        "a device that leaves reports/published":
            (record(ENVIRONMENT_FILE, device="../../evil"), PUBLISH, "environment.jsonl:1"),
        "a device of a calibration that is a path":
            (record(CALIBRATION, device="../x"), PREDICT_RUN, "calibration.jsonl:1"),
    }),
    *cases_of(REPORT, "plan/gemm.jsonl:1", {
        "an op of a plan that is a path": record(GEMM_PLAN, op="../../x"),
        "a recipe that is a path": record(GEMM_PLAN, recipe="../../x"),
        "an axis that is HTML": record(GEMM_PLAN, shape={"<script>": 1}),
    }),
    *cases({
        "a model of predictions that is a path":
            (record(PREDICTIONS, model="calibrated@../x"), REPORT, "gemm.jsonl:1"),
        "a folder with a command in its name":
            (renamed(f"reports/published/{ENVIRONMENT.device}", "$(touch PWNED)"), ("verify",
             "--quick"), "letters, digits"),
        "a folder with a space in its name":
            (renamed(f"reports/published/{ENVIRONMENT.device}", "made up"), CLAIMS,
             "letters, digits"),
        "a folder with a line end in its name":
            (renamed(f"results/{ENVIRONMENT.device}", "made\nup"), TABLE, "letters, digits"),
    }),
    *cases_of(VERIFY, None, {
        "a plan with a command in its name":
            (renamed(f"{PUBLISHED}/plan/gemm.jsonl.gz", "$(touch PWNED).jsonl.gz"),
             "letters, digits"),
        "a page of its own that would be hosted with a publication":
            (both(put(f"{PUBLISHED}/tables/evil.html", "<script>alert(1)</script>"),
             lambda checkout: write_manifest(checkout / PUBLISHED, None)),
             "is no file of a publication"),
        "a manifest that names files outside":
            (edited(f"{PUBLISHED}/manifest.json", '"calibration.jsonl"', '"../../../../../secret"'),
             "secret"),
    }),
    *cases({
        "a device that is a path on the command line":
            (nothing, ("predict", "--device", "../../secret", "--m", "1", "--n", "1", "--k", "1"),
             "device"),
        "an environment that is a path":
            (nothing, (*TABLE, "--environment", "../../.."), "nothing is measured"),
        "an op that is a path":
            (nothing, ("table", "--device", "made-up", "--op", "../../../secret"), "op"),
        "a language model that is a path":
            (nothing, ("llm", "--model", "../../../secret", "--device", "made-up"), "model"),
        "a ledger that is a path": (nothing, (*CLAIMS, "--ledger", "../../secret"), "ledger"),
        "a run that is not below the roots": (nothing, ("compare", "../../secret", RUN), "secret"),
    }),
    *cases_of(STUDY, None, {
        "shapes in a file with braces": (put(CONFIG, 'shapes_csv: "{x}.csv"'), "braces"),
        "a sweep in a file with braces":
            (edited(SWEEP, "cubes: [256, 512, 1024, 2048, 4096, 8192, 16384, 32768]",
             "csv: '{x}.csv'"), "braces"),
    }),
]

LINKS: Final = [
    *cases_of(VERIFY, "symbolic link", {
        "a calibration that is a link": linked(f"{PUBLISHED}/calibration.jsonl", "/etc/passwd"),
        "a measurement that is a link to a secret": to_secret(FROZEN),
        "a table that is a link": linked(f"{PUBLISHED}/tables/x.csv", "/etc/hostname"),
        "a folder of plans that is a link": linked(f"{PUBLISHED}/plan", "/etc"),
        "a publication that is a link": linked(PUBLISHED, "moved-away"),
        "a manifest that is a link to a secret": to_secret(f"{PUBLISHED}/manifest.json"),
        "an environment that is a link": to_secret(f"{PUBLISHED}/environment.jsonl"),
    }),
    *cases_of(REPORT, None, {
        "a run with a link, to report": (to_secret(PREDICTIONS), "symbolic link"),
        "a pipe instead of measurements": (pipe(GEMM), "no regular file"),
        "a report that is a link to a secret": (to_secret("out/report.html"), "symbolic link"),
    }),
    *cases({
        "a run with a link, to compare": (to_secret(GEMM), COMPARE, "symbolic link"),
        "a run with a link, to publish": (to_secret(f"{RUN}/llm.csv"), PUBLISH, "symbolic link"),
        "a run with a link, to calibrate": (to_secret(MATH), CALIBRATE, "symbolic link"),
        "a run with a link, to claims":
            (both(to_secret(GEMM), to_secret(FROZEN)), CLAIMS, "symbolic link"),
        "a calibration that is a link, to export": (_NO_CALIBRATION, EXPORT, "symbolic link"),
        "a calibration that is a link, to llm": (_NO_CALIBRATION, LLM, "symbolic link"),
        "a pipe instead of a calibration":
            (pipe(f"{PUBLISHED}/calibration.jsonl"), VERIFY, "no regular file"),
    }),
    *cases_of((*EXPORT, "--out", "out.csv"), None, {
        "an output that is a link to a secret": (to_secret("out.csv"), "symbolic link"),
        "an output that is a dangling link": (linked("out.csv", "../evil"), "symbolic link"),
    }),
    *cases({
        "an output on a full device": (nothing, (*EXPORT, "--out", "/dev/full"), "/dev/full"),
        "an output that is a folder": (nothing, (*EXPORT, "--out", "config"), "config"),
        "an output below a file": (nothing, (*EXPORT, "--out", f"{CONFIG}/x"), "config.yaml"),
    }),
]

NUMBERS: Final = [
    *cases_of(REPORT, None, {
        "a sample that is NaN": (sample("NaN"), "NaN"),
        "more warm-up than samples": (record(GEMM, warmup_samples=99), "warmup_samples"),
        "unequal telemetry": (record(GEMM, telemetry__power_w=[1.0]), "telemetry"),
        "telemetry behind the samples":
            (record(GEMM, telemetry__sample_index=[0, 9999]), "sample_index"),
        "slices that go back": (record(GEMM, slice_starts=[5, 1]), "slice_starts"),
        "a negative error": (record(GEMM, relative_error=-1), "relative_error"),
        "a size of 0": (record(GEMM_PLAN, shape={"m": 0, "n": 1, "k": 1}), "plan/gemm.jsonl:1"),
        "a size of 10^30":
            (record(GEMM_PLAN, shape={"m": 10**30, "n": 1, "k": 1}), "plan/gemm.jsonl:1"),
        "a shape without axes": (record(GEMM_PLAN, shape={}), "plan/gemm.jsonl"),
        "points of another op": (record(GEMM_PLAN, op="cast"), "points of cast"),
        "points of an unknown recipe": (record(GEMM_PLAN, recipe="fp99"), "plan/gemm.jsonl"),
        "a prediction of no time": (record(PREDICTIONS, total_s=0), "total_s"),
        "a prediction that is infinite":
            (edited(PREDICTIONS, '"total_s":', '"total_s":1e999,"y":'), "predictions/gemm.jsonl:1"),
        "an interval without its prediction":
            (record(PREDICTIONS, low_s=1.0, high_s=2.0), "interval"),
        "no compute units": (record(ENVIRONMENT_FILE, compute_units=0), "compute_units"),
        "a calibration of another device":
            (record(CALIBRATION, device="other"), "calibration.jsonl"),
    }),
    *cases_of(REPORT, "gemm.jsonl:1", {
        "a sample that is infinite": sample("1e999"),
        "a sample that is negative": sample("-1"),
        "a sample of no time": sample("0"),
        "a sample that is text": sample('"x"'),
    }),
    *cases({
        "no samples at all":
            (record(GEMM, latency_samples_s=[], warmup_samples=0, telemetry={}), TABLE, "ok", 0),
    }),
    *cases_of(PREDICT_RUN, None, {
        "a constant of 0":
            (constant("dram_read_bytes_per_s", value=0, ci95_low=0, ci95_high=0),
             "dram_read_bytes_per_s"),
        "a constant outside of its interval": (constant("x", ci95_low=2, ci95_high=3), "interval"),
        "a calibration without the errors of its probes":
            (record(CALIBRATION, probe_errors={}), "calibration.jsonl: gemm."),
        "a calibration without its compute units":
            (edited(CALIBRATION, '"compute_units":', '"other_units":'), "compute_units"),
        "a constant of 10^300":
            (constant("x", value=1e300, ci95_high=1e300), "no constant of a device"),
        "an interval of e^(10^300)":
            (record(CALIBRATION, **{"probe_errors__gemm.cublaslt.bf16": {"log_p95": 1e300}}),
             "no number"),
    }),
    *cases({
        "a calibration without constants, to export":
            (record(CALIBRATION, constants={}), EXPORT, "holds no constants"),
        "a calibration without constants": (record(CALIBRATION, constants={}), PREDICT_RUN, "", 0),
        "a key that stands twice in YAML":
            (put(CONFIG, "study: quick\nstudy: full\n"), STUDY, "stands 2 times"),
    }),
    *cases_of(POINTS, None, {
        "a column that stands twice in CSV":
            (put("points.csv", "recipe,m,m,n,k\nbf16,1,1,1,1\n"), "stands 2 times"),
        "an unclosed quote in CSV":
            (put("points.csv", 'recipe,m,n,k\n"bf16,1,1,1\n'), "points.csv"),
        "a size in CSV that is NaN":
            (put("points.csv", "recipe,m,n,k\nbf16,nan,1,1\n"), "points.csv:2"),
        "a size in CSV of 5,000 digits":
            (put("points.csv", f"recipe,m,n,k\nbf16,{'9' * 5000},1,1\n"), "points.csv:2"),
    }),
    *cases_of(STUDY, CONFIG, {
        "a date that is none in YAML": put(CONFIG, "study: 2024-13-45"),
        "YAML with a Python object":
            put(CONFIG, "study: !!python/object/apply:os.system ['touch PWNED']"),
        "YAML that is a list": put(CONFIG, "[1, 2]"),
        "YAML whose key is a list": put(CONFIG, "? [1, 2]\n: 3\n"),
    }),
    *cases({
        "an infinite datasheet":
            (put(DEVICE, "device: made-up\nvendor: nvidia\n"
                         "values: {dram_gb_per_s: {value: .inf, source: x}}\n"),
             (*PREDICT, "--by", "datasheet"), "made-up.yaml"),
        "a claim that is NaN":
            (edited(LEDGER, "claims:", "claims:\n- {id: x, says: x, test: .nan}\n"), CLAIMS,
             "deepgemm.yaml"),
        "a language model of negative size":
            (edited(MODEL, "layers: 32", "layers: -32"), LLM, "llama3-8b.yaml"),
    }),
]

ARGUMENTS: Final = [
    *cases({
        "--m of 400 digits":
            (nothing, ("predict", "--device", "nvidia-h200", "--m", "9" * 400, "--n", "1", "--k",
             "1"), "--m"),
        "--m in other digits":
            (nothing, ("predict", "--device", "nvidia-h200", "--m", "٣", "--n", "1", "--k", "1"),
             "--m"),
        "--slice {}": (nothing, plan("{}"), "--slice"),
        "--slice of a list": (nothing, plan("[1]"), "--slice"),
        "--slice that is no JSON": (nothing, plan("{"), "--slice"),
        "--slice nested 30,000 deep": (nothing, plan("[" * 30_000), "--slice"),
        "--timing [1]": (nothing, measure("[1]"), "--timing"),
        "--timing nested 30,000 deep": (nothing, measure("[" * 30_000), "--timing"),
        "--timing that is NaN": (nothing, measure('{"budget_s": NaN}'), "--timing"),
        "a plan of another machine": (nothing, measure("{}"), "made-up"),
        "--threshold nan": (nothing, (*COMPARE, "--threshold", "nan"), "--threshold"),
        "a run that is a file":
            (nothing, ("calibrate", "--run", CONFIG, "--out", "x"), "config.yaml"),
        "a run that is not there":
            (nothing, ("report", "--run", "nowhere", "--out", "x"), "nowhere"),
        "an empty run": (nothing, ("report", "--run", "", "--out", "x"), "environment.jsonl"),
        "a run that is the root": (nothing, ("verify", "/"), "/"),
        "a device of 5,000 letters":
            (nothing, (*EXPORT[:2], "x" * 5000, "--format", "csv"), "device"),
        "a CSV whose name holds a NUL": (nothing, plan(sliced(csv="x\0y")), "null byte"),
        "an output of 5,000 letters": (nothing, (*EXPORT, "--out", "x" * 5000), "x"),
        "10^9 tensor-parallel ranks": (nothing, (*LLM, "--tp", str(2**30)), "tp"),
    }),
    *cases_of(TABLE, None, {
        "a formula for a spreadsheet":
            (record(GEMM, status="failed", reason=_FORMULA), f"'{_FORMULA}"),
        "a reason that steers the terminal":
            (record(GEMM, status="failed", reason=_STEERING), r"\x1b]0;title\x07\x9b2J\u202e"),
    }, code=0),
    *cases({
        "a formula in the evidence of a constant":
            (constant("x", evidence=_FORMULA), EXPORT, f"'{_FORMULA}", 0),
        "a file whose name steers the terminal":
            (linked(f"{PUBLISHED}/plan/{_STEERING}", "/etc/passwd"), VERIFY,
             r"\x1b]0;title\x07\x9b2J\u202e"),
    }),
]
# fmt: on

HOSTILE_INPUTS: Final = {
    "bytes that are wrong": BYTES,
    "sizes": SIZES,
    "names that are paths or commands": NAMES,
    "links, pipes and devices": LINKS,
    "numbers that cannot be": NUMBERS,
    "arguments": ARGUMENTS,
}
