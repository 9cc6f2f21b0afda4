"""Durations and rates: ends of intervals go where they belong."""

from roofcal.core.times import Duration, Rate


def test_ends_of_intervals_go_where_they_belong() -> None:
    short, long = Duration(2.0, 1.0, 4.0), Duration(3.0, 0.5, 3.5)
    assert short + long == Duration(5.0, 1.5, 7.5)
    assert short * 3 == Duration(6.0, 3.0, 12.0)
    assert short.longer(long) == Duration(3.0, 1.0, 4.0)
    assert Rate(10.0, 5.0, 20.0).seconds(100) == Duration(10.0, 5.0, 20.0)
    assert short.rate(8) == Rate(4.0, 2.0, 8.0)
