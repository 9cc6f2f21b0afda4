"""Calibration probe: collectives and peer copies between the devices of a machine."""
