"""Calibration probe: casts of random shapes, disjoint from every shape of the study."""
