"""The section `roofline`."""
