"""What differs between two runs: points, constants, kernels, winners, break-even points."""
