"""The section `speedup`."""
