"""What the report shows of memory streams: all that there is of a model."""

from roofcal.ops.constants import Constant, OpPage, by_name

PAGE = OpPage(
    title="Memory streams",
    health=True,
    colours={"read": "blue", "write": "vermillion", "copy": "green"},
    markers={"triton": "^", "torch_eager": "s"},
    constants_prefix="",
    constants=by_name(
        *(
            Constant(
                f"{place}_{kind}_bytes_per_s",
                "B/s",
                f"{name} bandwidth, {kind}",
                datasheet="dram_bytes_per_s" if place == "dram" else None,
                headline=True,
            )
            for place, name in (("dram", "Memory"), ("cache", "Cache"))
            for kind in ("read", "write", "copy")
        )
    ),
)
