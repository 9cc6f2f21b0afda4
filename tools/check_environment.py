"""Says whether the Python that runs this file has what pyproject.toml asks for.

A missing distribution is an error (exit code 2); another version than the one asked for is only a
note, because the torch of a cluster is often not ours to choose. `make ... VENV=none` calls it.
With --dev the tools of the tests are checked as well.
"""

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Distributions that bring the same module under another name.
ALTERNATIVES = {"triton": ("triton", "triton-rocm", "pytorch-triton-rocm", "pytorch-triton")}


def installed_version(name: str) -> str | None:
    """Version of the distribution, or of one that stands in for it; None without any."""
    for candidate in ALTERNATIVES.get(name, (name,)):
        try:
            return version(candidate)
        except PackageNotFoundError:
            continue
    return None


def requirements(*, dev: bool) -> dict[str, str]:
    """Distribution name -> requirement, for the study; with `dev` for the tests as well."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = ("measure", "report", "symbolic", *(("dev",) if dev else ()))
    listed = [*project["dependencies"], *(line for name in names for line in extras[name])]
    return {re.split(r"[<>=!~\[; ]", line, maxsplit=1)[0]: line for line in listed}


def is_satisfied(requirement: str, found: str) -> bool:
    """Whether the version found fulfils the requirement; local labels such as +cpu do not count."""
    from packaging.requirements import Requirement  # noqa: PLC0415  (may itself be missing)

    return Requirement(requirement).specifier.contains(found.partition("+")[0], prereleases=True)


def problems(wanted: dict[str, str], found: dict[str, str | None]) -> list[str]:
    """What stops a study: missing packages, and the PyPI package that shadows our kernels/."""
    lines = []
    missing = [wanted[name] for name, value in found.items() if value is None]
    if missing:
        arguments = " ".join(f"'{requirement}'" for requirement in missing)
        lines.append(f"error: {sys.executable} lacks packages that pyproject.toml asks for")
        lines.append(f"  Way out: {sys.executable} -m pip install {arguments}")
    if installed_version("kernels") is not None:
        lines.append(
            "error: the PyPI package 'kernels' is installed; it shadows our folder kernels/"
        )
        lines.append(f"  Way out: {sys.executable} -m pip uninstall kernels")
    return lines


def main() -> int:
    """Print what is missing or different; the exit code."""
    wanted = requirements(dev="--dev" in sys.argv[1:])
    found = {name: installed_version(name) for name in wanted}
    if errors := problems(wanted, found):
        print(*errors, sep="\n", file=sys.stderr)
        return 2
    for name, requirement in wanted.items():
        if not is_satisfied(requirement, str(found[name])):
            print(f"note: pyproject.toml asks for {requirement}; {found[name]} is installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
