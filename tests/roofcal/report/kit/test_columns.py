"""How the values of columns are shown."""

from roofcal.report.kit import columns


def test_formats() -> None:
    assert columns.seconds("x", "x").show(1.23456e-5) == "12.35"
    assert columns.fraction("x", "x", signed=True).show(0.0512) == "+5.1\N{NO-BREAK SPACE}%"
    assert columns.count("x", "x").show(16384.0) == "16,384"
    assert columns.ratio("x", "x").show(1.5) == "1.50\N{MULTIPLICATION SIGN}"
    assert columns.TFLOPS.show(1.2345e15) == "1,234"
    assert columns.ratio("x", "x", digits=3).show(1.5) == "1.500"


def test_decibels_of_a_result_without_error_are_exact() -> None:
    column = columns.decibels("output_sqnr_db")
    assert (column.key, column.label, column.unit) == ("output_sqnr_db", "output", "dB")
    assert (column.show(28.54), column.show(float("inf"))) == ("28.5", "exact")


def test_axes_are_counts_under_their_own_names() -> None:
    (column,) = columns.counts("size_bytes")
    assert (column.label, column.show(1024)) == ("size bytes", "1,024")
