"""Durations and rates: ends of intervals go where they belong."""

from roofcal.core.times import NO_TIME, Duration, Rate

SHORT, LONG = Duration(2.0, 1.0, 4.0), Duration(3.0, 0.5, 3.5)


def test_ends_add_up_as_the_values_do() -> None:
    together, thrice = SHORT + LONG, SHORT * 3
    assert together == Duration(5.0, 1.5, 7.5)
    assert thrice == Duration(6.0, 3.0, 12.0)
    assert sum([SHORT, LONG], NO_TIME) == SHORT + LONG


def test_the_longer_of_two_is_taken_end_by_end() -> None:
    assert SHORT.longer(LONG) == Duration(3.0, 1.0, 4.0)


def test_the_fast_end_of_a_rate_is_the_short_end_of_a_time_and_back() -> None:
    assert Rate(10.0, 5.0, 20.0).seconds(100) == Duration(10.0, 5.0, 20.0)
    assert SHORT.rate(8) == Rate(4.0, 2.0, 8.0)
