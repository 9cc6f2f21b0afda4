"""Calibrated rooflines for low-precision GEMMs: plan, measure, calibrate, predict, report."""

__version__ = "0.1.0"
