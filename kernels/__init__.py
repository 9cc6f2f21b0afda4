"""Triton kernels of the study. Needs torch and triton, knows nothing of roofcal."""
