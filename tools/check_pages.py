"""Are the published pages those that the present code makes? Prints what a reader would see change.

It writes the site and its reports from the records to a temporary folder, and compares every file
with reports/published, byte by byte. Pages carry the script of Vega, so it needs the versions
of requirements/lock.txt. Exit code 1 where a file differs; `make verify` runs it.
"""

import difflib
import html
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from roofcal.core import paths
from roofcal.publish.site.write import write_site

_SHOWN_LINES: Final = 40  # of the difference of a file
_IGNORED: Final = "manifest.json"  # it names the commit, and the hashes of the other files


def differing_files(published: Path, again: Path) -> Iterator[tuple[Path, list[str]]]:
    """(file below both folders, difference of what a reader sees) of every file that differs."""
    names = {
        path.relative_to(folder)
        for folder in (published, again)
        for path in folder.rglob("*")
        if path.is_file() and path.name != _IGNORED
    }
    for name in sorted(names):
        sides = [folder / name for folder in (published, again)]
        contents = [side.read_bytes() if side.is_file() else None for side in sides]
        if contents[0] != contents[1]:
            before, now = (visible_lines(name, content or b"") for content in contents)
            change = difflib.unified_diff(before, now, "published", "now", n=0, lineterm="")
            yield name, list(change)


def visible_lines(name: Path, content: bytes) -> list[str]:
    """The text of a page without its markup and scripts; of other files all of it, line by line."""
    text = content.decode("utf-8", "replace")
    if name.suffix == ".json" and text:
        return json.dumps(json.loads(text), indent=1).splitlines()
    if name.suffix != ".html":
        return text.splitlines()
    text = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", text)
    blocks = html.unescape(re.sub(r"<[^>]+>", "\n", text)).splitlines()
    return [line for block in blocks if (line := " ".join(block.split()))]


def main() -> int:
    """Compare the published pages with those made now, and print the differences."""
    with tempfile.TemporaryDirectory() as temporary:
        # `make verify` asks first whether publications hold; asking again took 27 CPU s.
        write_site(paths.PUBLISHED, Path(temporary), are_verified=True)
        differences = list(differing_files(paths.PUBLISHED, Path(temporary)))
    for name, lines in differences:
        print(f"{paths.PUBLISHED / name}: not what the code makes of the records")
        print("".join(f"  {line[:300]}\n" for line in lines[:_SHOWN_LINES]), end="")
    if differences:
        print("make them anew: roofcal publish --again FOLDER...; see git diff")
    else:
        print(f"{paths.PUBLISHED}: all pages are those that the code makes")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
