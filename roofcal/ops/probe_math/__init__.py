"""Calibration probe: matrix products of random shapes, disjoint from every shape of the study."""
