"""The section `linear_accuracy`."""
