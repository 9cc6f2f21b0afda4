"""The wave model: the time of an operator of a described device from tiles, waves and bandwidths.

gemm            matrix products       attention     flash attention
vector_kernels  norms, activations    collectives   exchanges among the GPUs of a node
layer           a transformer layer   model         products and casts of a plan
notebook        the formulas of the notebook that the model corrects

docs/models.md states the model, and lists every correction with its size.
"""
