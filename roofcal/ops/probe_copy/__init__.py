"""Calibration probe: memory bandwidth of reads, writes and copies."""
