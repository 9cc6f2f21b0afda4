"""The locked judge: points that no study lists, drawn by a seed, and how wrong predictions are."""
