"""What stands in a drawn figure, and texts for people in letters that a test can type."""

from roofcal.report.kit.charts import Picture


def drawn(picture: Picture | None) -> Picture:
    """The picture of a table that has something to draw."""
    assert picture is not None
    return picture


def plain(text: str) -> str:
    """A text for people with plain spaces, x, u and - for its signs."""
    return text.translate(
        str.maketrans(
            "\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{MICRO SIGN}\N{MINUS SIGN}", " xu-"
        )
    )
