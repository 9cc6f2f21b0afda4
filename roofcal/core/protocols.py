"""The words of a point's protocol: how it is measured, from which cache, on which data.

A method is a way of timing, but `accuracy`: one call, for the distance of each output from the
reference. It is not timed, its row is ok without samples, and it runs without torch.compile, which
costs seconds per point: the ops are the same, what Inductor would fuse is rounded where it is not.
No error is too large for it to be ok; a NaN is incorrect.
"""

from typing import Literal

Method = Literal["graph", "events_flush", "profiler", "wall", "accuracy"]
CacheState = Literal["cold", "hot"]
Distribution = Literal["normal", "outlier_channels", "heavy_tails", "all_positive", "zeros"]
