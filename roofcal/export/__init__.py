"""Calibrations in the files that other tools load: subject is what is exported, in formats."""
