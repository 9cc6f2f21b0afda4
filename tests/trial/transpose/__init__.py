"""The transpose of a matrix: a toy op, whose folder the trial puts among the others."""
