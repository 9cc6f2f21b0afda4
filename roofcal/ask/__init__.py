"""What people ask of the models of time."""
