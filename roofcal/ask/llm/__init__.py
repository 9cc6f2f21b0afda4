"""Inference of a language model: its operators, priced one by one on a calibrated device.

The same weights, cache and links are on every GPU; what one GPU of the longest pipeline stage does
is what everything waits for. Kernels are replayed in CUDA graphs and follow one another: nothing
overlaps, neither kernels nor transfers.
"""
