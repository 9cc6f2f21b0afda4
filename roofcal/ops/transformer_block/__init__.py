"""A block of a dense language model forward and backward, its linears with recipes of op linear."""
