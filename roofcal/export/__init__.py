"""Calibrations in the files that other tools load."""
