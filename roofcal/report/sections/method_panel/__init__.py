"""The section `method_panel`."""
