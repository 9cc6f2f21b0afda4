"""Pages that follow from the code: config/README.md, and the reference of the documentation site.

Run: python -m tools.write_reference writes config/README.md; a test fails when it is stale. The
other pages are written while the site is built (docs/conf.py), so nobody has to keep them fresh.
"""

import argparse
import inspect
import json
import re
from pathlib import Path
from typing import Any, Final

import yaml

from roofcal.cli.main import command_parser as parser_of_commands
from roofcal.core.recipes import CAST_RECIPES, RECIPES, Operand, Scale
from roofcal.core.timing_protocol import Timing
from roofcal.ops import OPS
from roofcal.study.schema import StudyFile

ROOT: Final = Path(__file__).resolve().parent.parent

CONFIG_PAGE: Final = ROOT / "config" / "README.md"
_CONFIG_HEAD: Final = """\
# Configuring the study

`config/config.yaml` says what a study measures and for how long. Every key may be given for one
run as well: `snakemake --config study=standard seed=7`, or `--configfile my.yaml`. Mistakes are all
reported at once, with file, key and the values that are allowed. `python -m tools.write_reference`
writes this page from the schema.

| key | value | default | meaning |
|---|---|---|---|
"""
_CONFIG_TIMING: Final = """
## Timing

`timing.cuda` and `timing.cpu` say how a point is timed; `..._s` are seconds.
[How it is measured](../docs/method.md) says why.

| key | GPU | CPU | meaning |
|---|---|---|---|
"""
_CONFIG_FOLDERS: Final = """
## Other files

| folder | what a file of it says | schema |
|---|---|---|
| `sweeps/` | shapes, recipes and providers of one op | [sweep](schema/sweep.schema.json) |
| `devices/` | datasheet of a GPU, with sources | [device](schema/device.schema.json) |
| `models/` | matrices of a language model | [model](schema/model.schema.json) |
| `claims/` | what others published, to be tested | [claims](schema/claims.schema.json) |

Editors complete and check these files with the schemas. A study needs no other input: operands are
random.
"""


def described_keys(kind: type[Any]) -> dict[str, str]:
    """Key -> its meaning, from lines `key  meaning` of the docstring of a class of settings.

    A line that is indented further goes on with the meaning above it. `settle_*` describes every
    key of that prefix that has no line of its own. Raises KeyError for a key without a meaning.
    """
    lines: dict[str, str] = {}
    for line in inspect.getdoc(kind).splitlines()[1:]:  # type: ignore[union-attr]
        if entry := re.match(r"(\w+\*?) +(\S.*)", line):
            last = entry[1]
            lines[last] = entry[2]
        elif line.startswith("  ") and lines:
            lines[last] += f" {line.strip()}"
    return {key: lines.get(key) or lines[f"{key.split('_')[0]}_*"] for key in kind.model_fields}


def config_page() -> str:
    """The text of config/README.md."""
    settings = yaml.safe_load((ROOT / "config" / "config.yaml").read_text(encoding="utf-8"))
    schema = StudyFile.model_json_schema()
    study = [
        f"| `{key}` | {_values(schema['properties'][key])} | {_default(settings, key)} | {text} |\n"
        for key, text in described_keys(StudyFile).items()
    ]
    cuda, cpu = (Timing.model_validate(settings["timing"][name]) for name in ("cuda", "cpu"))
    timing = [
        f"| `{key}` | {getattr(cuda, key)} | {getattr(cpu, key)} | {text} |\n"
        for key, text in described_keys(Timing).items()
    ]
    return "".join([_CONFIG_HEAD, *study, _CONFIG_TIMING, *timing, _CONFIG_FOLDERS])


def _values(schema: dict[str, Any]) -> str:
    """What a key may hold, in words, from its JSON Schema."""
    if "anyOf" in schema:
        return " or ".join(filter(None, map(_values, schema["anyOf"])))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    words = {"array": "list", "object": "mapping", "boolean": "`true`, `false`", "null": ""}
    kind = schema.get("type", "object")
    return words.get(kind, str(kind))


def _default(settings: dict[str, Any], key: str) -> str:
    """The value of config/config.yaml; a mapping is shown by its keys."""
    value = settings.get(key)
    if value is None:
        return "-"
    return "see the file" if isinstance(value, dict) else f"`{str(value).lower()}`"


def write_site_pages(folder: Path) -> None:
    """Write the pages of the site that follow from the code or from notebooks into a folder."""
    pages = {"cli": cli_page(), "recipes": recipes_page()}
    notebooks = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
    # Beside the notebooks, so that their links to other pages hold.
    names = [f"../notebooks/{notebook.stem}" for notebook in notebooks]
    pages |= {name: notebook_page(file) for name, file in zip(names, notebooks, strict=True)}
    pages["notebooks"] = "\n".join([_NOTEBOOKS_HEAD, *names, "```\n"])
    for name, text in pages.items():
        file = folder / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        # An unchanged file keeps its time, so that Sphinx does not read it again.
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def cli_page() -> str:
    """Every command with its arguments, from the parser that reads them."""
    parser = parser_of_commands()
    commands = next(
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    summaries = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    parts = [f"# Command line\n\n`{parser.prog} COMMAND`. {parser.description or ''}\n"]
    for name, command in commands.choices.items():
        options = [a for a in command._actions if not isinstance(a, argparse._HelpAction)]
        rows = [f"| `{_spelling(option)}` | {_meaning(option)} |\n" for option in options]
        text = summaries.get(name) or command.description or ""
        head = "\n| argument | meaning |\n|---|---|\n" if rows else ""
        sentence = _in_a_cell(f"{text[:1].upper()}{text[1:]}")
        parts.append(f"\n## {name}\n\n{sentence}\n{head}{''.join(rows)}")
    return "".join(parts)


def recipes_page() -> str:
    """The names that commands and sweep files take: ops, providers, recipes."""
    ops = [
        f"| `{op.name}` | {', '.join(op.axes)} | {_names(op.providers_on('cuda'))} |"
        f" {_names(op.providers_on('cpu'))} |\n"
        for op in OPS
    ]
    recipes_of_ops = [f"- `{op.name}`: {_names(op.recipes)}\n" for op in OPS]
    products = [
        f"| `{recipe.name}` | {_format(recipe.a)} | {_format(recipe.b)} | {recipe.out} |"
        f" {recipe.math_dtype} | {recipe.accumulation} |\n"
        for recipe in RECIPES.values()
    ]
    casts = [
        f"| `{name}` | {'; '.join(map(_scale, scales))} |\n"
        for name, scales in CAST_RECIPES.items()
    ]
    return "".join(
        [
            _OPS_HEAD,
            *ops,
            _RECIPES_HEAD,
            *recipes_of_ops,
            _PRODUCTS_HEAD,
            *products,
            _CASTS_HEAD,
            *casts,
        ]
    )


def notebook_page(notebook: Path) -> str:
    """A Jupyter notebook as Markdown, with the outputs that it was saved with.

    Pictures (PNG, SVG) and HTML are shown as such, all else as text. Nothing is run.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts.append(f"```python\n{source}\n```")
            parts += map(_output, _with_joined_streams(cell["outputs"]))
    return "\n\n".join(filter(None, parts)) + "\n"


def _with_joined_streams(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The outputs with each run of printed text as one: a kernel may send it in several parts."""
    joined: list[dict[str, Any]] = []
    for output in outputs:
        if joined and "text" in output and "text" in joined[-1]:
            joined[-1] = {"text": [*joined[-1]["text"], *output["text"]]}
        else:
            joined.append(output)
    return joined


def _output(output: dict[str, Any]) -> str:
    """One output of a cell, in the richest of the formats that a page can show."""
    data = output.get("data", {})
    if png := "".join(data.get("image/png", "")):
        return f'<img alt="figure" src="data:image/png;base64,{png.strip()}">'
    if html := "".join(data.get("image/svg+xml", data.get("text/html", ""))):
        return f"```{{raw}} html\n{html}\n```"
    text = "".join(output.get("text", data.get("text/plain", output.get("traceback", ""))))
    return f"```text\n{text.rstrip()}\n```" if text else ""


_NOTEBOOKS_HEAD: Final = """\
# Notebooks

Questions in Python, with what the cells print. The files are in `docs/notebooks`.

```{toctree}
:maxdepth: 1
"""


_OPS_HEAD: Final = """\
# Names of ops, providers and recipes

Commands, sweep files and records use these names. [What is measured](../ops.md) says what stands
behind them.

## Ops

| op | axes | providers on GPUs | on CPUs |
|---|---|---|---|
"""
_RECIPES_HEAD: Final = """
## Recipes by op

"""
_PRODUCTS_HEAD: Final = """
## Recipes of products

C[M,N] = A[M,K] @ B[N,K].T. `arithmetic` names the datasheet rate that the product runs at. `fast`
accumulation is `use_fast_accum=True` of torch's scaled product.

| recipe | A | B | C | arithmetic | accumulation |
|---|---|---|---|---|---|
"""
_CASTS_HEAD: Final = """
## Recipes of casts

From bf16 to fp8 e4m3. A recipe with two scales writes two outputs from one read.

| recipe | scales |
|---|---|
"""


def _spelling(option: argparse.Action) -> str:
    """How an argument is written, with the name of its value."""
    value = option.metavar or option.dest.upper()
    name = " ".join(value) if isinstance(value, tuple) else str(value)
    if not option.option_strings:
        return name
    return option.option_strings[-1] + ("" if option.nargs == 0 else f" {name}")


def _meaning(option: argparse.Action) -> str:
    text = (option.help or "").replace("%(default)s", str(option.default)).replace("%%", "%")
    choices = list(option.choices or ())
    among = f" One of {_names(choices)}." if choices else ""
    needed = " Required." if option.required and option.option_strings else ""
    return _in_a_cell(f"{text}{'.' if text and (among or needed) else ''}{among}{needed}")


def _in_a_cell(text: str) -> str:
    """Text that Markdown shows as it is; what stands in backticks needs it for bars alone."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([<>*\[\]])", r"\\\1", part) for part in parts[::2]]
    return " ".join("`".join(parts).replace("|", r"\|").split())


def _names(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names) or "-"


def _format(operand: Operand) -> str:
    if operand.scale is None:
        return operand.dtype
    zero = ", and a zero point" if operand.zero_point else ""
    return f"{operand.dtype}, {_scale(operand.scale)}{zero}"


def _scale(scale: Scale) -> str:
    """One scale in words: its format and how many elements share it."""
    rows, cols = scale.rows or "all", scale.cols or "all"
    if scale.rows is None and scale.cols is None:
        return f"one {scale.dtype} scale"
    return f"a {scale.dtype} scale per {rows} x {cols}{' (transposed)' * scale.is_transposed}"


if __name__ == "__main__":
    CONFIG_PAGE.write_text(config_page(), encoding="utf-8")
    print(CONFIG_PAGE)
