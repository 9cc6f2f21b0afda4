"""Few tokens times weights in four, eight or sixteen bits."""
