"""The section `mixed`."""
