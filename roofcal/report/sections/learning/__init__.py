"""The section `learning`."""
