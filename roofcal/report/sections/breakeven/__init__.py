"""The section `breakeven`."""
