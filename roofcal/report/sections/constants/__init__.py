"""The section `constants`."""
