"""Calibrations in the files that other tools load: one module per format."""
