"""Inference of a language model: its operators, timed one by one on a calibrated device.

All GPUs have the same weights, cache and links; everything waits for one GPU of the longest
pipeline stage. Kernels are replayed in CUDA graphs and follow one another: neither kernels nor
transfers overlap.

deployment      sizes of a model, its GPUs and requests, memory
operator_times  times of single operators, by operator_models
operators       those of prefill and decode
estimate        the answer; sweep: many of them
"""
