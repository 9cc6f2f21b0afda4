"""Calibration probe: what a kernel that does nothing costs."""
