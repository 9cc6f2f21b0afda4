"""How blocks that sum parts of K of the same tile meet: the last one to arrive adds all, in order.

No float is added by an atomic, so equal inputs give equal bits. Counters end at zero, as they
began. They and the sums belong to a product of one stream (kernels.common.counters), and are
touched only after the kernel before it has ended, by chained launches too.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def finish(y, place, target, inside, partials, counters, SIZE: gl.constexpr, SPLIT: gl.constexpr):
    """Store y to `target` where `inside`; y is a part of the sum where SPLIT is above 1.

    place   offset of each element in a block's part of `partials`, SIZE elements
    """
    if SPLIT == 1:
        gl.store(target, y.to(target.dtype.element_ty), mask=inside)
    else:
        block = gl.program_id(0) * gl.num_programs(1) + gl.program_id(1)
        own = partials + block.to(gl.int64) * (SPLIT * SIZE) + place
        gl.store(own + gl.program_id(2) * SIZE, y)
        gl.thread_barrier()
        arrived = gl.atomic_add(counters + block, 1, sem="acq_rel", scope="gpu")
        if arrived == SPLIT - 1:
            total = gl.load(own, cache_modifier=".cg")
            if SIZE <= 8192:  # all loads in flight at once
                for other in gl.static_range(1, SPLIT):
                    total += gl.load(own + other * SIZE, cache_modifier=".cg")
            else:  # there are no registers for that
                for other in range(1, SPLIT):
                    total += gl.load(own + other * SIZE, cache_modifier=".cg")
            gl.store(target, total.to(target.dtype.element_ty), mask=inside)
            gl.store(counters + block, 0)
