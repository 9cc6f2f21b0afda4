"""manifest.json of a publication: every file with its SHA-256, and the commit that derived it."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from roofcal.core.files import write_bytes

NAME: Final = "manifest.json"
SCHEMA_VERSION: Final = 1


class ManifestError(ValueError):
    """A manifest that cannot be read; the message names the file and the way out."""


def write_manifest(folder: Path, commit: str | None) -> None:
    """Write manifest.json of a folder <device>/<environment_id>; equal files give equal bytes.

    commit: of the code that derived the files, None outside a git checkout. Raises OSError.
    """
    files = {name: _entry(folder / name) for name in _names(folder)}
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "device": folder.parent.name,
        "environment_id": folder.name,
        "commit": commit,
        "files": files,
    }
    write_bytes(folder / NAME, (json.dumps(manifest, indent=1) + "\n").encode())


def read_manifest(folder: Path) -> Mapping[str, Any] | None:
    """The manifest of a folder, None without one. Raises ManifestError for a damaged one."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version, files = manifest["schema_version"], manifest["files"]
        hashes = {name: (entry["sha256"], entry["bytes"]) for name, entry in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ManifestError(
            f"{path}: is no manifest ({type(error).__name__}: {error}); {_WAY_OUT}"
        ) from None
    if version != SCHEMA_VERSION or not hashes:
        raise ManifestError(
            f"{path}: schema version {version!r} with {len(hashes)} files, this roofcal reads "
            f"{SCHEMA_VERSION}; {_WAY_OUT}"
        )
    checked: Mapping[str, Any] = manifest
    return checked


_WAY_OUT: Final = "restore the folder with git, or publish the run again"


def differences(folder: Path, manifest: Mapping[str, Any]) -> Iterator[str]:
    """One sentence per way in which the files of a folder are not those of its manifest."""
    where = (folder.parent.name, folder.name)
    said = (manifest.get("device"), manifest.get("environment_id"))
    if said != where:
        yield f"{folder / NAME}: is of {'/'.join(map(str, said))}, not of its folder; {_WAY_OUT}"
    files: Mapping[str, Mapping[str, Any]] = manifest["files"]
    names = _names(folder)
    for name in sorted({*files, *names}):
        path = folder / name
        if name not in files:
            yield f"{path}: is in no manifest; remove it, or publish the run again"
        elif name not in names:
            yield f"{path}: is in the manifest and not there; {_WAY_OUT}"
        elif _entry(path) != files[name]:
            yield f"{path}: SHA-256 is not that of the manifest: edited or damaged; {_WAY_OUT}"


def _names(folder: Path) -> list[str]:
    """Files below a folder but the manifest, hidden ones left out."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    names = (path.relative_to(folder).as_posix() for path in paths)
    return sorted(n for n in names if n != NAME and not n.rpartition("/")[2].startswith("."))


def _entry(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
