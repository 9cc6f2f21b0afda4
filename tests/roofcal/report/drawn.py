"""What stands in a drawn figure."""

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from roofcal.report.kit.charts import Chart
from roofcal.report.kit.writer import Picture


def drawn(picture: Picture | None) -> Picture:
    """The picture of a table that has something to draw."""
    assert picture is not None
    return picture


def charted(picture: Picture | None) -> Chart:
    """The chart of a picture that is declared."""
    chart = drawn(picture).chart
    assert chart is not None
    return chart


def dots(*panels: Axes) -> NDArray[np.float64]:
    """(x, y) of all dots of some panels, one row each."""
    offsets = [np.asarray(c.get_offsets(), float) for axes in panels for c in axes.collections]
    return np.concatenate(offsets) if offsets else np.empty((0, 2))
