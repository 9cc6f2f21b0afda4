"""LayerNorm -> linear -> sigmoid forward and backward, recipes as in op linear."""
