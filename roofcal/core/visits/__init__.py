"""Visits to points: in which order, and how they become rows."""
