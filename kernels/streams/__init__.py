"""What memory and a launch cost: kernels.streams.memory and kernels.streams.empty."""
