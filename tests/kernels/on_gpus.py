"""Tensors that say that they lie on a GPU, where there is none."""

import torch


class OnGpu:
    """A tensor, as far as questions about its architecture go."""

    is_cuda = True
    device = torch.device("cuda:0")

    def get_device(self) -> int:
        return 0


class TensorOnGpu(torch.Tensor):
    """Memory where it is, or none; it says that this is the first GPU."""

    is_cuda = True

    def get_device(self) -> int:
        return 0


class TensorOnGpu1(TensorOnGpu):
    """On the second GPU."""

    def get_device(self) -> int:
        return 1
