"""What a reader would see change on published pages is printed, file by file."""

from pathlib import Path

from tools.check_pages import differing_files

PAGE = "<h1>Title</h1><script>let a = {};</script><p>took&nbsp;{} us</p>"


def folder_of(place: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


def test_files_that_differ_are_named_with_what_a_reader_sees_of_it(tmp_path: Path) -> None:
    published = folder_of(
        tmp_path / "published",
        {
            "same.html": PAGE.format(1, 5),
            "a/page.html": PAGE.format(1, 5),
            "script.html": PAGE.format(1, 5),
            "a/gone.csv": "x\n1\n",
            "data.json": '{"b": 1}',
            "manifest.json": '{"commit": "one"}',
        },
    )
    again = folder_of(
        tmp_path / "again",
        {
            "same.html": PAGE.format(1, 5),
            "a/page.html": PAGE.format(1, 6),
            "script.html": PAGE.format(2, 5),
            "data.json": '{"b": 2}',
            "manifest.json": '{"commit": "other"}',
        },
    )
    differences = {str(name): lines[2:] for name, lines in differing_files(published, again)}
    assert differences == {
        "a/gone.csv": ["@@ -1,2 +0,0 @@", "-x", "-1"],
        "a/page.html": ["@@ -2 +2 @@", "-took 5 us", "+took 6 us"],
        "data.json": ["@@ -2 +2 @@", '- "b": 1', '+ "b": 2'],
        "script.html": [],  # the text is the same, the bytes are not
    }
