"""The wave model: time of an operator from tiles, waves and what feeds them, of a described device.

Products by tile choice, cache and LDS (shared-memory) bandwidth and wave quantisation; flash
attention; normalisation; activation; collectives. Every number of a device comes from section
`wave` of config/devices/<device>.yaml, where it has a source. The formulas are those of the seed
mi300_llm_inference_roofline_notebook, which is inconsistent in places. `roofcal.models.wave.
notebook` keeps them as they are and yields its printed figures; everything else here is corrected.

Every deviation, with the notebook's figure and the corrected one. Both are run on the notebook's
own device (amd-mi300x-notebook) for its llama-65B, one of two tensor ranks, 2048 tokens in prefill,
16 sequences in decode; tests/roofcal/models/wave/test_deviations.py compares them with this list:

                          notebook corrected
    memory bandwidth          4342      4260 GB/s
        two cells, two bandwidths: 0.8 of 5.3 Gbit/s a pin, 0.65 of 6.4
        Gbit/s; the MI300X has 5.2 (amd-mi300x.yaml). The first cell
        prints TB/s as "Gbytes/s"
    KV cache                 5.078     5.453 GB
        GiB printed as GB, then subtracted from GB
    batch                       56        11 sequences
        what is left is not divided by the cache of one sequence
    token, by operations     1.971     3.729 ms
        QKV lacks a factor model_dim, llama's feed-forward has three
        matrices and not two; operations are divided by bytes/s (right
        only because a weight is 2 of each)
    prompt, computing        47.62     42.64 ms
        as above; twice the operations, which count multiply and add
        already; no causal mask
    prompt, exchanging       34.24     29.96 ms
        4 exchanges of all bytes; two all-reduces move 2 (p - 1) / p each
    prefill qkv, halved     0.4905     0.516 ms
        half of the time of a product of twice the columns (and half a
        launch) instead of the product that a GPU has
    prefill qkv              0.516    0.5293 ms
        C's bytes count against the cache and again one after another; the
        launch is 5 % and 5 us; of K always 128 against LDS, and C in it
        instead of the operands' store
    decode qkv             0.01979   0.06078 ms
        the memory's bandwidth bounds nothing from 16 rows on
    ragged product         0.02653   0.03777 ms
        130 rows: a part of a tile costs that part of its time
    product of few tiles   0.01352   0.01319 ms
        128 x 128: units without a tile take a share of the cache; LDS
        bounds what is left
    skinny product       2.301e-17   0.04208 ms
        GiB / (1e6 GB/s), then taken for clocks, then for ms; A and C not
        read; the split of K has no effect
    attention, no mask      0.1276    0.1057 ms
        workgroups per unit rounded to 0.1, never up to whole waves; bytes
        per clock and scores per clock rounded down; the products' 0.8
        only where two workgroups share a unit; tiles of 2 rows; no memory
    prefill attention       0.1276   0.06164 ms
        and no causal mask, which halves the work
    decode attention        0.0001    0.1312 ms
        16 queries against 16 keys: the cache of 2048 is not read
    normalisations           0.063   0.04151 ms
        twice doubled: 4 a layer; 4 bytes an element are right for reading
        and writing bf16, wrong for the fp32 it says; no launch
    with residuals           0.063   0.07302 ms
        adding the residual is missing: another read and write
    feed-forward            0.4695     1.346 ms
        the first of llama's three matrices; the second is called included
    activation              0.0193   0.03675 ms
        GELU without memory; llama multiplies SiLU by a second input
    collectives             0.7267      1.57 ms
        one exchange a layer, of hidden_dim columns where model_dim leave
        the GPU, without (p - 1) / p, its memory traffic that of all ranks;
        a gather of one row and all layers; and the sum of seven links
        between two GPUs that share one
    of eight ranks          0.7267    0.5362 ms
        the same bytes where all seven links are in use
    prefill layer            2.087     3.793 ms
        the sum of the above
    decode layer            0.0771    0.4519 ms
        the same, 16 sequences of one token
    embedding and logits         0    0.1038 ms
        missing, as are the sends between stages
    prefill                  41.75     305.9 ms
        80 layers / 4 stages: a stage's share of the work, not the time of
        one prompt, which passes all four
    decode of one token      1.542     36.29 ms
        the same
    prompt and output        43.29      1467 ms
        prompt and 1 token; the output is 32

No number is fitted to our measurements. Three choices of structure were made with the published
H200 products in view: busy units alone share the cache (the notebook counts all), the tiles of an
H200 are all that its instructions give, and that clusters of Hopper share reads is left out.

Left as it is: the latency of a collective (latency * log2 of the ranks), the steps of the softmax,
the 7 operations of a normalisation. Left out, as it printed nothing: bytes resident in GPU, CPU and
disk (it counts elements, takes hidden_dim for model_dim and forgets llama's third matrix).
"""

from roofcal.core.wave_device import WaveDevice
from roofcal.models.wave.activation import activation
from roofcal.models.wave.attention import Attention, flash_attention
from roofcal.models.wave.collectives import all_gather, all_reduce, reduce_scatter, send
from roofcal.models.wave.gemm import product
from roofcal.models.wave.normalisation import normalisation
from roofcal.models.wave.operator_time import OperatorTime

__all__ = [
    "Attention",
    "OperatorTime",
    "WaveDevice",
    "activation",
    "all_gather",
    "all_reduce",
    "flash_attention",
    "normalisation",
    "product",
    "reduce_scatter",
    "send",
]
