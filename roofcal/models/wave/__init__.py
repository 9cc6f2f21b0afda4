"""The wave model: the time of an operator of a described device from tiles, waves and bandwidths.

gemm       matrix products
attention  flash attention
operators  norms, activations, and exchanges among the GPUs of a node
model      products and casts of a plan

docs/models.md states the model, and lists what it corrects of the notebook it comes from, with the
size of every correction (examples/mi300_notebook.py).
"""
