"""`torchao`: an entry of the table of GPUs behind torchao's roofline of float8 training.

Consumer: torchao 0.18.0 (PyPI), torchao/testing/training/roofline_utils.py, `gpu_name_to_specs`,
also read at pytorch/ao 0598012907d6. The file is one Python literal:

    gpu_name_to_specs.update(ast.literal_eval(Path("h200.py").read_text()))

| theirs                    | ours                                                               |
|---------------------------|--------------------------------------------------------------------|
| key                       | what torch.cuda.get_device_name() printed on the calibrated card    |
| bf16_peak_tops            | the datasheet's rate                                               |
| pct_achievable_gemm_tops  | fastest bf16 product of the probes / bf16_peak_tops                 |
| fp8_, fp4_peak_tops       | fastest product of the probes / pct_achievable_gemm_tops            |
| peak_mem_bw_bytes_sec     | the datasheet's bandwidth                                          |
| pct_achievable_mem_bw     | dram_copy_bytes_per_s / peak: its kernels read and write           |

torchao has one percentage for all formats, and its roofline uses it in `peak * pct` alone. fp8
reaches another part of its peak than bf16, so one percentage cannot be right beside two datasheet
peaks: here `peak * pct` is our measured rate for each format, and a comment gives the datasheet's
figure. (Its benchmarks/float8 print percentages of the peak: they are of the number in this file.)

Dropped: the launch of a kernel (KERNEL_LAUNCH_OVERHEAD_SEC is a constant of the module; the file
names our value in a comment), differences between fp8 recipes (one fp8 rate: the fastest), tiles,
waves, the power limit, and every interval.
"""

from roofcal.export.subject import COPY, LAUNCH, Rate, Subject, comment

FORMAT = "torchao"
SUFFIX = "py"


def write(subject: Subject) -> str:
    """The Python literal; raises ExportError where a constant or the datasheet is missing."""
    gemm, memory = subject.needed_math("bf16"), subject.memory(COPY)
    lines = [f"# {_said(gemm)}", f'"bf16_peak_tops": {gemm.peak!r},']
    for dtype in ("fp8", "fp4"):
        rate = subject.math(dtype)
        if rate is not None:
            peak = rate.value / gemm.fraction
            lines += [f"# {_said(rate)}", f'"{dtype}_peak_tops": {peak!r},']
    lines += [
        "# bf16 measured / peak; every *_peak_tops times this is a measured rate",
        f'"pct_achievable_gemm_tops": {gemm.fraction!r},',
        f"# {memory.name}: {memory.value / 1e9:.4g} GB/s of {memory.peak / 1e9:.4g}",
        f'"peak_mem_bw_bytes_sec": {memory.peak!r},',
        f'"pct_achievable_mem_bw": {memory.fraction!r},',
    ]
    body = "".join(f"        {line}\n" for line in lines)
    return f'{_head(subject)}{{\n    "{subject.device_name}": {{\n{body}    }},\n}}\n'


def _said(rate: Rate) -> str:
    """What was measured, and of how much."""
    printed = f" of {rate.printed / 1e12:.5g} on the datasheet" if rate.printed else ""
    return f"{rate.name}: {rate.value / 1e12:.5g} TFLOP/s{printed}"


def _head(subject: Subject) -> str:
    launch = subject.calibration.constants.get(LAUNCH)
    lines = [
        "For torchao.testing.training.roofline_utils:",
        "gpu_name_to_specs.update(ast.literal_eval(text))",
        *subject.provenance(FORMAT),
    ]
    if launch is not None:
        lines.append(
            f"{LAUNCH}: KERNEL_LAUNCH_OVERHEAD_SEC of that module would be {launch.value!r}"
        )
    return comment(lines)
