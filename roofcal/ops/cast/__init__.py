"""bf16 -> fp8 e4m3 casts with dynamic scales."""
