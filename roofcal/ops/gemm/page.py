"""What the report shows of matrix products."""

from roofcal.ops.page import ConstantText, OpPage

PAGE = OpPage(
    meaning="C[M,N] = A[M,K] B[N,K]ᵀ",
    title="Matrix products",
    time_includes="Times exclude the casts to the narrow format: this is what the products alone "
    "allow.",
    time_note="without casts",
    is_headline=True,
    health=True,
    library_providers=("cublaslt", "torch_cpu"),
    colours={
        "bf16": "blue",
        "fp32": "grey",
        "int8": "purple",
        "fp8_tensorwise": "vermillion",
        "fp8_tensorwise_slow_accum": "orange",
        "fp8_axiswise": "green",
        "fp8_axiswise_slow_accum": "sky",
        "fp8_blockwise_128x128": "ink",
    },
    markers={"cublaslt": "o", "torch_cpu": "o", "triton": "^"},
    constants={
        "ceiling_flops_per_s": ConstantText(label="Fastest probe", datasheet="peak", headline=True),
        "sustained_flops_per_s": ConstantText(
            label="Rate the power limit sustains", datasheet="peak"
        ),
        "sustained_sm_clock_hz": ConstantText(label="Clock under load", headline=True),
        "sustained_power_w": ConstantText(
            label="Power under load", datasheet="power_limit_w", headline=True
        ),
        "tile_family": ConstantText(label="Tiles the library chooses from"),
        "launch_s": ConstantText(label="Start of a product"),
        "tile_flops_per_s": ConstantText(label="Rate of one compute unit in a tile"),
        "load_bytes_per_s": ConstantText(label="Loads of one compute unit"),
        "l2_bytes_per_s": ConstantText(label="Loads of all units from cache"),
        "k_latency_s_per_byte": ConstantText(label="Latency along K"),
        "tile_flops_8_byte_per_s": ConstantText(label="Rate of one compute unit, rows on 8 bytes"),
        "k_latency_8_byte_s_per_byte": ConstantText(label="Latency along K, rows on 8 bytes"),
        "tile_flops_odd_per_s": ConstantText(label="Rate of one compute unit, other rows"),
        "k_latency_odd_s_per_byte": ConstantText(label="Latency along K, other rows"),
        "crowd_s_per_byte": ConstantText(label="Wait per unit that reads the same rows"),
        "wave_s": ConstantText(label="Start of a further wave"),
        "split_k_s": ConstantText(label="Price of splitting K"),
        "store_bytes_per_s": ConstantText(label="End of a tile: stores of one compute unit"),
        "piece_s": ConstantText(label="Price of each part of a split K"),
        "piece_bytes_per_s": ConstantText(label="Adding up the sums of a split K"),
        "misaligned": ConstantText(label="Slow-down of misaligned rows"),
        "uneven": ConstantText(label="Slow-down of rows off 256 bytes"),
        "side_s": ConstantText(label="Price of a row or a column"),
        "direct_flops_per_s": ConstantText(label="Rate of products without packing"),
        "pack_bytes_per_s": ConstantText(label="Packing of the operands"),
        "pack_a_bytes_per_s": ConstantText(label="Packing of A"),
        "pack_b_bytes_per_s": ConstantText(label="Packing of B"),
        "update_bytes_per_s": ConstantText(label="Writing of C"),
        "near_bytes": ConstantText(label="Weights that stay in the cache"),
        "far": ConstantText(label="Slow-down of larger weights"),
        "dram_bytes_per_s": ConstantText(
            label="Memory bandwidth in products", datasheet="dram_bytes_per_s"
        ),
    },
)
PROBE_PAGE = OpPage(health=True)
