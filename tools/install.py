"""Install what requirements files list into the environment of this Python; pip's settings hold.

`python tools/install.py [OPTION ...] -r FILE ...` takes options that pip and uv know alike. uv
installs (requirements/uv.txt), because pip takes 125 s of CPU for requirements/lock.txt and a build
of torch, half of them to compile every module; uv takes 20 s, and Python compiles what is
imported. Where uv cannot be had or fails, pip does it and one sentence says so.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

UV = Path(__file__).resolve().parent.parent / "requirements/uv.txt"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
QUIET_INSTALL = [*PIP, "-qq", "install"]
# pip's settings that say where packages come from -> uv's option of the same meaning.
SAME_OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "constraint": "--constraint",
    "trusted-host": "--allow-insecure-host",
}
# How pip speaks and caches; whatever else is set may decide what is installed, and pip knows it.
HARMLESS = {
    *("disable-pip-version-check", "no-cache-dir", "cache-dir", "no-color", "quiet", "verbose"),
    *("progress-bar", "root-user-action", "no-input", "timeout", "retries", "default-timeout"),
    *("no-python-version-warning", "break-system-packages", "no-index", "no-warn-script-location"),
    "prefer-binary",  # requirements name one version each
}
# uv has no option for these, or knows them from variables of the environment.
ENVIRONMENT = {"cert": ["SSL_CERT_FILE"], "proxy": ["HTTP_PROXY", "HTTPS_PROXY"]}


def pip_settings(listing: str) -> dict[str, str]:
    """Option -> value for `pip install`, from the lines that `pip config list` prints.

    As in pip, a variable of the environment is stronger than a line of the section `install` of a
    file, and that than one of the section `global`.
    """
    settings: dict[str, str] = {}
    for section in ("global", "install", ":env:"):
        for line in listing.splitlines():
            name, _, value = line.partition("=")
            of, _, option = name.rpartition(".")
            if of == section:
                settings[option] = ast.literal_eval(value)
    return settings


def uv_arguments(settings: dict[str, str]) -> list[str]:
    """What `uv pip install` is told so that it asks where pip would, with pip's order of rank.

    unsafe-best-match: the best version of all sources, as pip takes it, and not that of the first
    source which knows the name.
    """
    arguments = ["--python", sys.executable, "--index-strategy", "unsafe-best-match", "--quiet"]
    for option, ours in SAME_OPTIONS.items():
        for value in settings.get(option, "").split():
            arguments += [ours, value]
    if settings.get("no-index", "no").lower() in ("1", "true", "yes", "on"):
        arguments.append("--no-index")
    return arguments


def uv_environment(settings: dict[str, str]) -> dict[str, str]:
    """Variables for uv: pip's certificates and proxy, where it has any of its own."""
    return {
        name: settings[key]
        for key, names in ENVIRONMENT.items()
        if key in settings
        for name in names
    }


def install_by_uv(arguments: list[str]) -> str:
    """Install with uv; an empty string, or why it could not."""
    get_uv = [*QUIET_INSTALL, "--no-compile", "--no-deps", "-r", str(UV)]
    if subprocess.run(get_uv, check=False, capture_output=True).returncode:
        return f"{UV.name} could not be installed"
    list_settings = [*PIP, "config", "list"]
    listing = subprocess.run(list_settings, check=False, capture_output=True, text=True)
    if listing.returncode:
        return "pip does not list its settings"
    settings = pip_settings(listing.stdout)
    if unknown := sorted(settings.keys() - SAME_OPTIONS.keys() - ENVIRONMENT.keys() - HARMLESS):
        return f"uv is not told of pip's {', '.join(unknown)}"
    done = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "install", *uv_arguments(settings), *arguments],
        env=os.environ | uv_environment(settings),
        check=False,
        capture_output=True,
        text=True,
    )
    return f"uv could not:\n{done.stderr.strip()}" if done.returncode else ""


def main(arguments: list[str]) -> int:
    """Install what `arguments` name; the exit code of pip where uv could not."""
    if why := install_by_uv(arguments):
        words = " ".join(arguments)
        print(f"note: pip installs {words}, in minutes, because {why}", file=sys.stderr)
        return subprocess.run([*QUIET_INSTALL, *arguments], check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
