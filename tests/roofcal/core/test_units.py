"""Numbers as people read them."""

from roofcal.core.units import GIB, MIB, format_bytes, format_seconds, with_interval


def test_numbers_have_the_prefix_that_people_expect() -> None:
    texts = {0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", GIB: "1 GiB", 2048 * GIB: "2 TiB"}
    assert {count: format_bytes(count) for count in texts} == texts
    times = {3e-9: "3 ns", 3.25e-6: "3.25 us", 0.0125: "12.5 ms", 90.0: "90 s"}
    assert {seconds: format_seconds(seconds) for seconds in times} == times


def test_exact_numbers_have_all_digits_and_no_interval() -> None:
    assert with_interval(50 * MIB, 50 * MIB, 50 * MIB, "B") == ("52,428,800", "", "B")
    assert with_interval(2.5e9, 2.4e9, 2.6e9, "Hz") == ("2,500", "2,400 to 2,600", "MHz")
