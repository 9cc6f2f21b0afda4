"""Probe measurements -> constants of a device with intervals. Never reads a study op."""
