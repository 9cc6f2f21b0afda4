"""manifest.json of a publication: every file with its SHA-256, and the commit that derived it."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from roofcal.core.files import InputError, folder_problems, read_json, write_bytes
from roofcal.core.paths import CARDS, ENVIRONMENT_FILE, JUDGED

NAME: Final = "manifest.json"
SCHEMA_VERSION: Final = 1


class ManifestError(ValueError):
    """A manifest that cannot be read; the message names the file and the way out."""


def write_manifest(folder: Path, commit: str | None) -> None:
    """Write manifest.json of a folder <device>/<environment_id>; equal files give equal bytes.

    commit: of the code that derived the files, None outside a git checkout. Raises OSError.
    """
    files = {name: _file_entry(folder / name) for name in file_names(folder)}
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
        manifest = read_json(path)
        version, files = manifest["schema_version"], manifest["files"]
        hashes = {name: (entry["sha256"], entry["bytes"]) for name, entry in files.items()}
    except InputError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise ManifestError(f"{path}: is no manifest ({reason}); {_WAY_OUT}") from None
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


_RECORDS: Final = (ENVIRONMENT_FILE, "plan", "measurements", JUDGED, CARDS)
_WAY_OUT: Final = "restore the folder with git, or publish the run again"


def differences(
    folder: Path, manifest: Mapping[str, Any], *, records_only: bool = False
) -> Iterator[str]:
    """One sentence per way in which the files of a folder are not those of its manifest.

    records_only: leave out the files that are derived from others.
    """
    where = (folder.parent.name, folder.name)
    described = (manifest.get("device"), manifest.get("environment_id"))
    if described != where:
        name = "/".join(map(str, described))
        yield f"{folder / NAME}: is of {name}, not of its folder; {_WAY_OUT}"
    files: Mapping[str, Mapping[str, Any]] = manifest["files"]
    names = file_names(folder)
    for name in sorted({*files, *names}):
        if records_only and name.partition("/")[0] not in _RECORDS:
            continue
        path = folder / name
        if name not in files:
            yield f"{path}: is in no manifest; remove it, or publish the run again"
        elif name not in names:
            yield f"{path}: is in the manifest and not there; {_WAY_OUT}"
        elif _file_entry(path) != files[name]:
            yield f"{path}: SHA-256 is not that of the manifest: edited or damaged; {_WAY_OUT}"


def manifest_problems(folder: Path, *, records_only: bool = False) -> list[str]:
    """Why a publication may not be shown as one, one sentence each; [] where its manifest holds.

    records_only: check the records alone, not the files that are derived from them; a publication
    from before manifests then has no problem.
    """
    if problems := list(folder_problems(folder)):
        return problems
    try:
        manifest = read_manifest(folder)
    except ManifestError as error:
        return [str(error)]
    if manifest is None:
        return [] if records_only else [f"{folder / NAME}: is not there; {_WAY_OUT}"]
    return list(differences(folder, manifest, records_only=records_only))


def file_names(folder: Path) -> list[str]:
    """Files below a folder but the manifest, hidden ones left out."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    names = (path.relative_to(folder).as_posix() for path in paths)
    return sorted(n for n in names if n != NAME and not n.rpartition("/")[2].startswith("."))


def _file_entry(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256")
    return {"sha256": digest.hexdigest(), "bytes": path.stat().st_size}
