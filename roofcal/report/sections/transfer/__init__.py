"""The section `transfer`."""
