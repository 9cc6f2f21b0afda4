"""Calibration probe: products with narrow weights, disjoint from every shape of the study."""
