"""Transposing casts in Gluon for NVIDIA GPUs from Hopper on; launched by columns and blocks."""
