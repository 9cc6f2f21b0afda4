"""What memory and a launch cost: kernels.streams.memory."""
