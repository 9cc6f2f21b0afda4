"""The section `moved`."""
