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
BREAKEVEN: Final = ("breakeven", "--device", "nvidia-h200", "--model", "datasheet", "--recipe")
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
_CONSTANT: Final = {"value": 1, "ci95_low": 1, "ci95_high": 1, "unit": "1", "evidence": ""}


def _mistake(
    name: str, change: Change, command: Sequence[str], says: str, code: int = 2
) -> Hostile:
    return Hostile(name=name, change=change, command=command, says=says, code=code)


BYTES: Final = [
    _mistake("a byte that is no UTF-8 in records", inserted(GEMM, b"\xff"), REPORT, "gemm.jsonl:2"),
    _mistake("a NUL in records", inserted(GEMM, b"\0" * 9), TABLE, "gemm.jsonl:2"),
    _mistake("200,000 [ in a line", inserted(GEMM, b"[" * DEEP), REPORT, "nested too deeply"),
    _mistake(
        "200,000 objects within each other", inserted(GEMM, b'{"a":' * DEEP), REPORT, "nested"
    ),
    _mistake("a line of 10 MB", inserted(GEMM, b"x" * 10_000_000), REPORT, "in a line"),
    _mistake("an integer of 5,000 digits", inserted(GEMM, b"9" * 5000), REPORT, "gemm.jsonl:2"),
    _mistake("half a record", inserted(GEMM, b'{"record": "Measu'), REPORT, "gemm.jsonl:2"),
    _mistake("a record of no kind", inserted(GEMM, b'{"record": "Evil"}'), REPORT, "gemm.jsonl:2"),
    _mistake("a record that is a list", inserted(GEMM, b"[1, 2]"), REPORT, "gemm.jsonl:2"),
    _mistake("an archive cut off", lambda c: os.truncate(c / FROZEN, 400), VERIFY, "cut off"),
    _mistake("an archive that is none", put(FROZEN, b"no gzip"), VERIFY, "damaged"),
    _mistake("an empty archive", put(FROZEN, b""), VERIFY, "gemm.jsonl.gz"),
    _mistake("an empty environment", put(ENVIRONMENT_FILE, b""), REPORT, "environment.jsonl"),
    _mistake(
        "an empty environment to plan for", put(ENVIRONMENT_FILE, ""), plan({}), "environment"
    ),
    _mistake("an empty calibration", put(CALIBRATION, b""), PREDICT_RUN, "calibration.jsonl"),
    _mistake("UTF-16 configuration", put(CONFIG, "study: quick".encode("utf-16")), STUDY, CONFIG),
    _mistake(
        "a byte order mark before a CSV",
        put("points.csv", "\ufeffrecipe,m,n,k\nbf16,512,512,512\n"),
        (*POINTS, "--model", "calibrated"),
        "bf16,512,512,512",
        code=0,
    ),
]

SIZES: Final = [
    _mistake("YAML whose aliases stand for 10^9", put(CONFIG, _BOMB), STUDY, "aliases"),
    _mistake(
        "gzip that unpacks to 2 GB", packed(FROZEN, (b" " * 2**20, 2048)), VERIFY, "in a line"
    ),
    _mistake(
        "gzip of numbers alone", packed(FROZEN, (b'{"a":[', 1), (b"1," * 2**19, 12)), VERIFY, "gz"
    ),
    _mistake("gzip of empty lines", packed(FROZEN, (b"\n" * 2**20, 200)), VERIFY, "unpacks"),
    _mistake("a million bad lines", packed(FROZEN, (b"{}\n", 1_000_000)), VERIFY, "gemm.jsonl.gz"),
    _mistake("YAML with an alias of itself", put(CONFIG, "a: &a [*a]"), STUDY, CONFIG),
    _mistake("YAML nested 5,000 deep", put(CONFIG, "a: " + "[" * 5000), STUDY, "levels"),
    _mistake("YAML of 4 MB", put(CONFIG, "# x\n" * 2**20), STUDY, "the most that is read"),
    _mistake("YAML with 4 MB of one key", put(SWEEP, f"op: {'g' * 2**22}"), STUDY, "gemm.yaml"),
    _mistake("a config that is /dev/zero", linked(CONFIG, "/dev/zero"), STUDY, CONFIG),
    _mistake("points from /dev/zero", nothing, (*POINTS[:3], "--points", "/dev/zero"), "/dev/zero"),
    _mistake(
        "a grid of 10^9 points",
        nothing,
        plan(sliced(grid={a: [*range(1, 1001)] for a in "mnk"})),
        "points",
    ),
    _mistake(
        "10^9 random shapes",
        nothing,
        plan(sliced(log_uniform={"count": _HIGH, "seed": 0, "low": 1, "high": 9})),
        "count",
    ),
    _mistake(
        "random shapes that none can be",
        nothing,
        plan(
            sliced(log_uniform={"count": 9, "seed": 0, "low": 512, "high": 1024, "max_flops": 1.0})
        ),
        "max_flops",
    ),
    _mistake("a sweep of a cube of 10^300", nothing, plan(sliced(cubes=[10**300])), "cubes"),
    _mistake(
        "CSV with a cell of 1 MB",
        put("points.csv", f"recipe,m,n,k\n{'x' * 2**20},1,1,1\n"),
        POINTS,
        "points.csv",
    ),
    _mistake(
        "CSV with 200,000 bad rows",
        put("points.csv", "recipe,m,n,k\n" + "x,1,1,1\n" * 200_000),
        POINTS,
        "more",
    ),
    _mistake(
        "CSV with 500,000 columns",
        put("points.csv", "a," * 500_000 + "\n1\n"),
        POINTS,
        "points.csv:1",
    ),
    _mistake(
        "a publication of 20,000 files",
        both(*(put(f"{PUBLISHED}/x/{number}", "") for number in range(20_000))),
        VERIFY,
        "files",
    ),
    _mistake(
        "a manifest nested 200,000 deep",
        put(f"{PUBLISHED}/manifest.json", _NESTED_JSON),
        VERIFY,
        "manifest.json",
    ),
    _mistake(
        "a manifest with a number of 5,000 digits",
        put(f"{PUBLISHED}/manifest.json", "9" * 5000),
        VERIFY,
        "manifest.json",
    ),
    _mistake(
        "a sample count of 10^18", record(GEMM, calls_per_sample=10**18), REPORT, "calls_per_sample"
    ),
]

NAMES: Final = [
    _mistake(
        "a device that leaves --out",
        record(ENVIRONMENT_FILE, device="../../../evil"),
        REPORT,
        "environment.jsonl:1",
    ),
    _mistake(
        "a device that leaves reports/published",
        record(ENVIRONMENT_FILE, device="../../evil"),
        PUBLISH,
        "environment.jsonl:1",
    ),
    _mistake(
        "a device that is an absolute path",
        record(ENVIRONMENT_FILE, device="/tmp/evil"),
        REPORT,
        "environment.jsonl:1",
    ),
    _mistake(
        "a torch version that is a path",
        record(ENVIRONMENT_FILE, torch="../../x"),
        REPORT,
        "environment.jsonl:1",
    ),
    _mistake(
        "a driver version with a command",
        record(ENVIRONMENT_FILE, driver="$(touch PWNED)"),
        REPORT,
        "environment.jsonl:1",
    ),
    _mistake(
        "a device of a calibration that is a path",
        record(CALIBRATION, device="../x"),
        PREDICT_RUN,
        "calibration.jsonl:1",
    ),
    _mistake(
        "an op of a plan that is a path",
        record(GEMM_PLAN, op="../../x"),
        REPORT,
        "plan/gemm.jsonl:1",
    ),
    _mistake(
        "a recipe that is a path", record(GEMM_PLAN, recipe="../../x"), REPORT, "plan/gemm.jsonl:1"
    ),
    _mistake(
        "an axis that is HTML",
        record(GEMM_PLAN, shape={"<script>": 1}),
        REPORT,
        "plan/gemm.jsonl:1",
    ),
    _mistake(
        "a model of predictions that is a path",
        record(PREDICTIONS, model="calibrated@../x"),
        REPORT,
        "gemm.jsonl:1",
    ),
    _mistake(
        "a folder with a command in its name",
        renamed(f"reports/published/{ENVIRONMENT.device}", "$(touch PWNED)"),
        ("verify", "--quick"),
        "letters, digits",
    ),
    _mistake(
        "a folder with a space in its name",
        renamed(f"reports/published/{ENVIRONMENT.device}", "made up"),
        CLAIMS,
        "letters, digits",
    ),
    _mistake(
        "a folder with a line end in its name",
        renamed(f"results/{ENVIRONMENT.device}", "made\nup"),
        TABLE,
        "letters, digits",
    ),
    _mistake(
        "a plan with a command in its name",
        renamed(f"{PUBLISHED}/plan/gemm.jsonl.gz", "$(touch PWNED).jsonl.gz"),
        VERIFY,
        "letters, digits",
    ),
    _mistake(
        "a device that is a path on the command line",
        nothing,
        ("predict", "--device", "../../secret", "--m", "1", "--n", "1", "--k", "1"),
        "device",
    ),
    _mistake(
        "an environment that is a path",
        nothing,
        (*TABLE, "--environment", "../../.."),
        "nothing is measured",
    ),
    _mistake(
        "an op that is a path",
        nothing,
        ("table", "--device", "made-up", "--op", "../../../secret"),
        "op",
    ),
    _mistake(
        "a language model that is a path",
        nothing,
        ("llm", "--model", "../../../secret", "--device", "made-up"),
        "model",
    ),
    _mistake("a ledger that is a path", nothing, (*CLAIMS, "--ledger", "../../secret"), "ledger"),
    _mistake(
        "a run that is not below the roots", nothing, ("compare", "../../secret", RUN), "secret"
    ),
    _mistake("shapes in a file with braces", put(CONFIG, 'shapes_csv: "{x}.csv"'), STUDY, "braces"),
    _mistake(
        "a sweep in a file with braces",
        edited(SWEEP, "cubes: [256, 512, 1024, 2048, 4096, 8192, 16384, 32768]", "csv: '{x}.csv'"),
        STUDY,
        "braces",
    ),
    _mistake(
        "a page of its own that would be hosted with a publication",
        both(
            put(f"{PUBLISHED}/tables/evil.html", "<script>alert(1)</script>"),
            lambda checkout: write_manifest(checkout / PUBLISHED, None),
        ),
        VERIFY,
        "is no file of a publication",
    ),
    _mistake(
        "a manifest that names files outside",
        edited(f"{PUBLISHED}/manifest.json", '"calibration.jsonl"', '"../../../../../secret"'),
        VERIFY,
        "secret",
    ),
]

LINKS: Final = [
    _mistake(
        "a calibration that is a link",
        linked(f"{PUBLISHED}/calibration.jsonl", "/etc/passwd"),
        VERIFY,
        "symbolic link",
    ),
    _mistake(
        "a measurement that is a link to a secret",
        linked(FROZEN, "../../../../../../secret"),
        VERIFY,
        "symbolic link",
    ),
    _mistake(
        "a table that is a link",
        linked(f"{PUBLISHED}/tables/x.csv", "/etc/hostname"),
        VERIFY,
        "symbolic link",
    ),
    _mistake(
        "a folder of plans that is a link",
        linked(f"{PUBLISHED}/plan", "/etc"),
        VERIFY,
        "symbolic link",
    ),
    _mistake(
        "a publication that is a link", linked(PUBLISHED, "moved-away"), VERIFY, "symbolic link"
    ),
    _mistake(
        "a manifest that is a link to a secret",
        linked(f"{PUBLISHED}/manifest.json", "../../../../../secret"),
        VERIFY,
        "symbolic link",
    ),
    _mistake(
        "an environment that is a link",
        linked(f"{PUBLISHED}/environment.jsonl", "../../../../../secret"),
        VERIFY,
        "symbolic link",
    ),
    _mistake(
        "a run with a link, to report",
        linked(PREDICTIONS, "../../../../../secret"),
        REPORT,
        "symbolic link",
    ),
    _mistake(
        "a run with a link, to compare",
        linked(GEMM, "../../../../../secret"),
        COMPARE,
        "symbolic link",
    ),
    _mistake(
        "a run with a link, to publish",
        linked(f"{RUN}/llm.csv", "../../../../secret"),
        PUBLISH,
        "symbolic link",
    ),
    _mistake(
        "a run with a link, to calibrate",
        linked(MATH, "../../../../../secret"),
        CALIBRATE,
        "symbolic link",
    ),
    _mistake(
        "a run with a link, to claims",
        both(linked(GEMM, "../../../../../secret"), linked(FROZEN, "../../../../../../secret")),
        CLAIMS,
        "symbolic link",
    ),
    _mistake(
        "a calibration that is a link, to export",
        both(
            linked(CALIBRATION, "/etc/passwd"),
            linked(f"{PUBLISHED}/calibration.jsonl", "/etc/passwd"),
        ),
        EXPORT,
        "symbolic link",
    ),
    _mistake(
        "a calibration that is a link, to llm",
        both(
            linked(CALIBRATION, "/etc/passwd"),
            linked(f"{PUBLISHED}/calibration.jsonl", "/etc/passwd"),
        ),
        LLM,
        "symbolic link",
    ),
    _mistake("a pipe instead of measurements", pipe(GEMM), REPORT, "no regular file"),
    _mistake(
        "a pipe instead of a calibration",
        pipe(f"{PUBLISHED}/calibration.jsonl"),
        VERIFY,
        "no regular file",
    ),
    _mistake(
        "an output that is a link to a secret",
        linked("out.csv", "../secret"),
        (*EXPORT, "--out", "out.csv"),
        "symbolic link",
    ),
    _mistake(
        "an output that is a dangling link",
        linked("out.csv", "../evil"),
        (*EXPORT, "--out", "out.csv"),
        "symbolic link",
    ),
    _mistake(
        "a report that is a link to a secret",
        linked("out/report.html", "../../secret"),
        REPORT,
        "symbolic link",
    ),
    _mistake("an output on a full device", nothing, (*EXPORT, "--out", "/dev/full"), "/dev/full"),
    _mistake("an output that is a folder", nothing, (*EXPORT, "--out", "config"), "config"),
    _mistake("an output below a file", nothing, (*EXPORT, "--out", f"{CONFIG}/x"), "config.yaml"),
]

NUMBERS: Final = [
    _mistake(
        "a sample that is NaN",
        edited(GEMM, '"latency_samples_s":[', '"latency_samples_s":[NaN,'),
        REPORT,
        "NaN",
    ),
    _mistake(
        "a sample that is infinite",
        edited(GEMM, '"latency_samples_s":[', '"latency_samples_s":[1e999,'),
        REPORT,
        "gemm.jsonl:1",
    ),
    _mistake(
        "a sample that is negative",
        edited(GEMM, '"latency_samples_s":[', '"latency_samples_s":[-1,'),
        REPORT,
        "gemm.jsonl:1",
    ),
    _mistake(
        "a sample of no time",
        edited(GEMM, '"latency_samples_s":[', '"latency_samples_s":[0,'),
        REPORT,
        "gemm.jsonl:1",
    ),
    _mistake(
        "a sample that is text",
        edited(GEMM, '"latency_samples_s":[', '"latency_samples_s":["x",'),
        REPORT,
        "gemm.jsonl:1",
    ),
    _mistake(
        "more warm-up than samples", record(GEMM, warmup_samples=99), REPORT, "warmup_samples"
    ),
    _mistake("unequal telemetry", record(GEMM, telemetry__power_w=[1.0]), REPORT, "telemetry"),
    _mistake(
        "telemetry behind the samples",
        record(GEMM, telemetry__sample_index=[0, 9999]),
        REPORT,
        "sample_index",
    ),
    _mistake("slices that go back", record(GEMM, slice_starts=[5, 1]), REPORT, "slice_starts"),
    _mistake("a negative error", record(GEMM, relative_error=-1), REPORT, "relative_error"),
    _mistake(
        "no samples at all",
        record(GEMM, latency_samples_s=[], warmup_samples=0, telemetry={}),
        TABLE,
        "ok",
        code=0,
    ),
    _mistake(
        "a size of 0",
        record(GEMM_PLAN, shape={"m": 0, "n": 1, "k": 1}),
        REPORT,
        "plan/gemm.jsonl:1",
    ),
    _mistake(
        "a size of 10^30",
        record(GEMM_PLAN, shape={"m": 10**30, "n": 1, "k": 1}),
        REPORT,
        "plan/gemm.jsonl:1",
    ),
    _mistake("a shape without axes", record(GEMM_PLAN, shape={}), REPORT, "plan/gemm.jsonl"),
    _mistake("points of another op", record(GEMM_PLAN, op="cast"), REPORT, "points of cast"),
    _mistake(
        "points of an unknown recipe", record(GEMM_PLAN, recipe="fp99"), REPORT, "plan/gemm.jsonl"
    ),
    _mistake(
        "a constant of 0",
        record(
            CALIBRATION,
            constants={
                "dram_read_bytes_per_s": {
                    "value": 0,
                    "ci95_low": 0,
                    "ci95_high": 0,
                    "unit": "B/s",
                    "evidence": "",
                }
            },
        ),
        PREDICT_RUN,
        "dram_read_bytes_per_s",
    ),
    _mistake(
        "a constant outside of its interval",
        record(
            CALIBRATION,
            constants={
                "x": {"value": 1, "ci95_low": 2, "ci95_high": 3, "unit": "B/s", "evidence": ""}
            },
        ),
        PREDICT_RUN,
        "interval",
    ),
    _mistake(
        "a calibration without the errors of its probes",
        record(CALIBRATION, probe_errors={}),
        PREDICT_RUN,
        "calibration.jsonl: gemm.",
    ),
    _mistake(
        "a calibration without its compute units",
        edited(CALIBRATION, '"compute_units":', '"other_units":'),
        PREDICT_RUN,
        "compute_units",
    ),
    _mistake(
        "a calibration without constants, to export",
        record(CALIBRATION, constants={}),
        EXPORT,
        "holds no constants",
    ),
    _mistake(
        "a constant of 10^300",
        record(CALIBRATION, constants={"x": _CONSTANT | {"value": 1e300, "ci95_high": 1e300}}),
        PREDICT_RUN,
        "no constant of a device",
    ),
    _mistake(
        "an interval of e^(10^300)",
        record(CALIBRATION, **{"probe_errors__gemm.cublaslt.bf16": {"log_p95": 1e300}}),
        PREDICT_RUN,
        "no number",
    ),
    _mistake(
        "a calibration without constants",
        record(CALIBRATION, constants={}),
        PREDICT_RUN,
        "",
        code=0,
    ),
    _mistake("a prediction of no time", record(PREDICTIONS, total_s=0), REPORT, "total_s"),
    _mistake(
        "a prediction that is infinite",
        edited(PREDICTIONS, '"total_s":', '"total_s":1e999,"y":'),
        REPORT,
        "predictions/gemm.jsonl:1",
    ),
    _mistake(
        "an interval without its prediction",
        record(PREDICTIONS, low_s=1.0, high_s=2.0),
        REPORT,
        "interval",
    ),
    _mistake(
        "no compute units", record(ENVIRONMENT_FILE, compute_units=0), REPORT, "compute_units"
    ),
    _mistake(
        "a calibration of another device",
        record(CALIBRATION, device="other"),
        REPORT,
        "calibration.jsonl",
    ),
    _mistake(
        "a key that stands twice in YAML",
        put(CONFIG, "study: quick\nstudy: full\n"),
        STUDY,
        "stands 2 times",
    ),
    _mistake(
        "a column that stands twice in CSV",
        put("points.csv", "recipe,m,m,n,k\nbf16,1,1,1,1\n"),
        POINTS,
        "stands 2 times",
    ),
    _mistake(
        "an unclosed quote in CSV",
        put("points.csv", 'recipe,m,n,k\n"bf16,1,1,1\n'),
        POINTS,
        "points.csv",
    ),
    _mistake(
        "a size in CSV that is NaN",
        put("points.csv", "recipe,m,n,k\nbf16,nan,1,1\n"),
        POINTS,
        "points.csv:2",
    ),
    _mistake(
        "a size in CSV of 5,000 digits",
        put("points.csv", f"recipe,m,n,k\nbf16,{'9' * 5000},1,1\n"),
        POINTS,
        "points.csv:2",
    ),
    _mistake("a date that is none in YAML", put(CONFIG, "study: 2024-13-45"), STUDY, CONFIG),
    _mistake(
        "YAML with a Python object",
        put(CONFIG, "study: !!python/object/apply:os.system ['touch PWNED']"),
        STUDY,
        CONFIG,
    ),
    _mistake("YAML that is a list", put(CONFIG, "[1, 2]"), STUDY, CONFIG),
    _mistake("YAML whose key is a list", put(CONFIG, "? [1, 2]\n: 3\n"), STUDY, CONFIG),
    _mistake(
        "an infinite datasheet",
        put(
            DEVICE,
            "device: made-up\nvendor: nvidia\nvalues: {dram_gb_per_s: {value: .inf, source: x}}\n",
        ),
        (*PREDICT, "--model", "datasheet"),
        "made-up.yaml",
    ),
    _mistake(
        "a claim that is NaN",
        edited(LEDGER, "claims:", "claims:\n- {id: x, says: x, test: .nan}\n"),
        CLAIMS,
        "deepgemm.yaml",
    ),
    _mistake(
        "a language model of negative size",
        edited(MODEL, "layers: 32", "layers: -32"),
        LLM,
        "llama3-8b.yaml",
    ),
]

ARGUMENTS: Final = [
    _mistake(
        "--m of 400 digits",
        nothing,
        ("predict", "--device", "nvidia-h200", "--m", "9" * 400, "--n", "1", "--k", "1"),
        "--m",
    ),
    _mistake(
        "--m in other digits",
        nothing,
        ("predict", "--device", "nvidia-h200", "--m", "٣", "--n", "1", "--k", "1"),
        "--m",
    ),
    _mistake("--slice {}", nothing, plan("{}"), "--slice"),
    _mistake("--slice of a list", nothing, plan("[1]"), "--slice"),
    _mistake("--slice that is no JSON", nothing, plan("{"), "--slice"),
    _mistake("--slice nested 30,000 deep", nothing, plan("[" * 30_000), "--slice"),
    _mistake("--timing [1]", nothing, measure("[1]"), "--timing"),
    _mistake("--timing nested 30,000 deep", nothing, measure("[" * 30_000), "--timing"),
    _mistake("--timing that is NaN", nothing, measure('{"budget_s": NaN}'), "--timing"),
    _mistake("a plan of another machine", nothing, measure("{}"), "made-up"),
    _mistake("--threshold nan", nothing, (*COMPARE, "--threshold", "nan"), "--threshold"),
    _mistake(
        "a run that is a file", nothing, ("calibrate", "--run", CONFIG, "--out", "x"), "config.yaml"
    ),
    _mistake(
        "a run that is not there", nothing, ("report", "--run", "nowhere", "--out", "x"), "nowhere"
    ),
    _mistake("an empty run", nothing, ("report", "--run", "", "--out", "x"), "environment.jsonl"),
    _mistake("a run that is the root", nothing, ("verify", "/"), "/"),
    _mistake(
        "a device of 5,000 letters", nothing, (*EXPORT[:2], "x" * 5000, "--format", "csv"), "device"
    ),
    _mistake("a CSV whose name holds a NUL", nothing, plan(sliced(csv="x\0y")), "null byte"),
    _mistake("an output of 5,000 letters", nothing, (*EXPORT, "--out", "x" * 5000), "x"),
    _mistake("10^9 tensor-parallel ranks", nothing, (*LLM, "--tp", str(2**30)), "tp"),
    _mistake(
        "a formula for a spreadsheet",
        record(GEMM, status="failed", reason=_FORMULA),
        TABLE,
        f"'{_FORMULA}",
        code=0,
    ),
    _mistake(
        "a formula in the evidence of a constant",
        record(CALIBRATION, constants={"x": _CONSTANT | {"evidence": _FORMULA}}),
        EXPORT,
        f"'{_FORMULA}",
        code=0,
    ),
    _mistake(
        "a reason that steers the terminal",
        record(GEMM, status="failed", reason=_STEERING),
        TABLE,
        r"\x1b]0;title\x07\x9b2J\u202e",
        code=0,
    ),
    _mistake(
        "a file whose name steers the terminal",
        linked(f"{PUBLISHED}/plan/{_STEERING}", "/etc/passwd"),
        VERIFY,
        r"\x1b]0;title\x07\x9b2J\u202e",
    ),
]

HOSTILE_INPUTS: Final = {
    "bytes that are wrong": BYTES,
    "sizes": SIZES,
    "names that are paths or commands": NAMES,
    "links, pipes and devices": LINKS,
    "numbers that cannot be": NUMBERS,
    "arguments": ARGUMENTS,
}
