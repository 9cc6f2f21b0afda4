"""Measure this card at once: whether it is slower than its kind, and products people ask for."""
