"""`genz`: an entry of the table of systems of GenZ-LLM-Analyzer.

Consumer: abhibambhaniya/GenZ-LLM-Analyzer, Systems/system_configs.py at 2bb2e0c62267 and its reader
`get_inference_system` in GenZ/LLM_inference/utils.py at 29a00889fddb, units in GenZ/unit.py at
8f6cc168e4f0. The file is one Python literal:

    system_configs.update(ast.literal_eval(Path("h200.py").read_text()))

| theirs      | ours                                                                             |
|-------------|----------------------------------------------------------------------------------|
| Flops       | fastest bf16 product of the probes, in 1e12 FLOP/s                               |
| Memory_BW   | dram_read_bytes_per_s (decoding reads weights and cache), in 2**30 B/s           |
| Memory_size | what the driver offers, in 2**30 B                                               |
| ICN         | the datasheet's link, one direction, in 2**30 B/s: not calibrated                |
| real_values | True, or the reader ignores the entry                                            |

GenZ calls its units GB and GB/s and multiplies by 2**30, so that its own entries are 7.4 % faster
than their sources; numbers are divided by 2**30 here and come out as the bytes that we measured.
They are achieved rates: leave its `ceff` and `meff` at 1.

Dropped: fp8 and int8 rates (GenZ takes both as twice bf16), launches, ICN_LL (no link was timed:
its own default holds), caches, intervals.
"""

from roofcal.core.units import GIB, TERA
from roofcal.export.subject import READ, Subject, comment

FORMAT = "genz"
SUFFIX = "py"


def write(subject: Subject) -> str:
    """The Python literal; raises ExportError where a constant, datasheet or link is missing."""
    values = {
        "Flops": subject.needed_math("bf16").value / TERA,
        "Memory_size": subject.memory_bytes / GIB,
        "Memory_BW": subject.memory(READ).value / GIB,
        "ICN": subject.link_bytes_per_s / GIB,
        "real_values": True,
    }
    head = [
        "For GenZ-LLM-Analyzer: system_configs.update(ast.literal_eval(text)); ceff=1, meff=1",
        "Its GB are 2**30 bytes; ICN is the datasheet's, everything else was measured",
        *subject.provenance(FORMAT),
    ]
    body = "".join(f"        {key!r}: {value!r},\n" for key, value in values.items())
    return f"{comment(head)}{{\n    {subject.device_name!r}: {{\n{body}    }},\n}}\n"
