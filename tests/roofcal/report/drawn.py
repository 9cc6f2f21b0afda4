"""What stands in a drawn figure."""

from roofcal.report.kit.charts import Chart
from roofcal.report.kit.writer import Picture


def drawn(picture: Picture | None) -> Picture:
    """The picture of a table that has something to draw."""
    assert picture is not None
    return picture


def charted(picture: Picture | None) -> Chart:
    """Its chart."""
    return drawn(picture).chart
