"""The section `prediction_errors`."""
