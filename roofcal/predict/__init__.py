"""Models of time, one per file: plan, device and calibration in, seconds out; no measurements."""
