"""Who may import which third-party package, and that fits give the same bits on every processor.

Who may import whom inside: contracts in pyproject.
"""

import ast
import re
import subprocess
import sys

from tests.architecture.tree import modules
from tests.paths import ROOT

# Package -> third-party packages its modules may import. The longest name that fits a module
# decides; `*` stands for one part of a name. Everything that is not listed may import none.
ALLOWED: dict[str, set[str]] = {
    "kernels": {"torch", "triton"},
    "kernels.*.rule": {"numpy"},  # models of time read them, where there is no torch
    "kernels.linear.recipes": set(),  # read at plan time, where there is no torch
    "roofcal.core": set(),
    "roofcal.core.records": {"pydantic"},
    "roofcal.core.jsonl": {"pydantic"},
    "roofcal.core.files": {"yaml"},
    "roofcal.core.timing_protocol": {"pydantic"},
    "roofcal.core.language_models": {"pydantic"},
    "roofcal.ask.llm.transformers_config": {"pydantic"},
    "roofcal.study.schema": {"pydantic"},
    "roofcal.study.config": set(),  # reads YAML through roofcal.core.yaml_files
    "roofcal.core.yaml_files": {"pydantic", "yaml"},
    "roofcal.core.devices": {"pydantic"},
    "roofcal.ops.bench": {"torch", "triton"},  # triton: which assembler its kernels are given
    "roofcal.ops.linear.bench": {"torch", "kernels", "torchao"},  # torchao: optional
    "roofcal.ops.*.bench": {"torch", "triton", "kernels", "gemlite"},  # gemlite: an optional extra
    "roofcal.ops.*.model": {"numpy"},
    "roofcal.ops.kernel_rules": {"kernels"},  # their rules alone, see pyproject
    "roofcal.ops.cast.launches": {"numpy"},
    "roofcal.ops.gemm.tiles": {"numpy"},
    "roofcal.ops.*.fit": {"numpy", "scipy"},
    "roofcal.ops.predictions": {"numpy"},
    "roofcal.ops.priors": {"numpy"},
    "roofcal.ops.time_models": {"numpy"},
    "roofcal.fitting": {"numpy"},
    "roofcal.fitting.cross_validation": {"numpy", "scipy"},
    "roofcal.ops.linear.spec": {"kernels"},  # kernels.linear.recipes alone, see pyproject
    "roofcal.measure": {"torch", "triton", "kernels", "numpy", "tqdm", "cuda"},
    "roofcal.core.machine.nvml": {"pynvml"},
    "roofcal.calibrate": {"numpy"},
    "roofcal.compare": {"numpy", "pandas", "scipy"},
    "roofcal.health.comparison": {"numpy", "pandas", "scipy"},
    "roofcal.core.portable_math": {"numpy"},
    "roofcal.core.times": {"numpy"},
    "roofcal.core.visits.differences": {"numpy", "scipy"},
    "roofcal.study.doctor": {"numpy"},  # its product
    "roofcal.core.visits.intervals": {"numpy", "scipy"},
    "roofcal.points": {"pandas"},
    "roofcal.points.errors": {"numpy", "pandas", "scipy"},
    "roofcal.judge.layers": {"pydantic"},
    "roofcal.judge.errors": {"numpy", "pandas"},
    "roofcal.judge.rivals": {"numpy"},
    "roofcal.models": {"numpy"},
    "roofcal.ask": {"numpy"},
    "roofcal.models.torchao_formulas": {"sympy"},  # formulas as expressions
    "roofcal.ask.answers": {"pandas"},  # of frames alone
    "roofcal.cli.main": {"shtab"},
    "roofcal.cli.records": {"pandas"},  # for types
    "roofcal.export.frames": {"pandas"},
    "roofcal.export.formats": {"pandas", "yaml"},
    "roofcal.claims": {"pydantic"},
    "roofcal.publish.site.devices": {"pandas"},
    "roofcal.publish.site.points": {"pandas"},
    "roofcal.publish.site.write": {"pandas"},
    "roofcal.report": {"numpy", "pandas", "vl_convert", "jinja2"},
}


def _covers(pattern: str, name: str) -> bool:
    wanted, parts = pattern.split("."), name.split(".")
    return len(parts) >= len(wanted) and all(
        w in ("*", part) for w, part in zip(wanted, parts, strict=False)
    )


def allowed(name: str) -> set[str]:
    fitting = [pattern for pattern in ALLOWED if _covers(pattern, name)]
    return ALLOWED[max(fitting, key=lambda pattern: pattern.count("."))] if fitting else set()


def test_a_module_imports_only_the_packages_of_its_layer() -> None:
    strangers = {}
    for module in modules("roofcal", "kernels"):
        tops = module.third_party() | ({"kernels"} & {n.split(".")[0] for n in module.imported})
        strangers[module.name] = tops - {module.name.partition(".")[0]} - allowed(module.name)
    assert len(strangers) > 200
    assert {name: found for name, found in strangers.items() if found} == {}, (
        f"see ALLOWED in {__file__} and 'Who may import whom' in CONTRIBUTING.md"
    )


def test_the_command_line_starts_without_heavy_packages() -> None:
    """Otherwise --help, a dry run and predict for one point would take seconds."""
    heavy = ["torch", "triton", "matplotlib", "snakemake", "scipy", "pandas", "sympy"]
    program = f"import sys, roofcal.cli.main; print(*({set(heavy)} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


# NumPy computes these by vector instructions that the processor has; roofcal.core.portable_math
# has exp and log of the same bits everywhere.
UNLIKE = frozenset(
    ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "power", "float_power", "logaddexp"]
)
FITS = re.compile(r"roofcal\.(fitting\.\w+|ops\.\w+\.(fit|model)|judge\.rivals)")


def test_a_fit_calls_no_function_whose_last_bits_depend_on_the_processor() -> None:
    fits = [module for module in modules("roofcal") if FITS.fullmatch(module.name)]
    called = {
        f"{module.path}:{node.lineno}: {ast.unparse(node)}"
        for module in fits
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
        and node.attr in UNLIKE
        and ast.unparse(node.value) == "np"
    }
    assert len(fits) > 10
    assert called == set()
