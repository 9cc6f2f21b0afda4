"""The machine that a study runs on: its NVIDIA GPUs, locks on its devices, its checkout."""
