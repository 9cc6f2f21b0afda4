"""A linear layer forward and backward, with a recipe per operand of its three products."""
