"""Vocabulary of the study: dtypes, recipes, work, regimes, statistics. Standard library only."""
