# As `measure`, for an op of several GPUs on a cluster: a job per world size holds the GPUs, cores and
# memory that its points need, so that none waits for GPUs, or holds some, which others of the op use.
use rule measure as measure_world_size with:
    output:
        "{root}/{device}/{environment}/measurements/by_gpus/{op}.{gpus}.jsonl",
    log:
        "{root}/{device}/{environment}/log/measure_{op}.{gpus}.log",
    benchmark:
        "{root}/{device}/{environment}/log/measure_{op}.{gpus}.tsv"
    wildcard_constraints:
        root="results",
        environment=CURRENT,
        op=any_of(SHARED_OUT),
        gpus="[0-9]+",
    threads: lambda w: run_of(w).cores(int(w.gpus))
    resources:
        device=lambda w: run_of(w).device_halves(),
        gpu=lambda w: int(w.gpus),
        mem_mb=lambda w: run_of(w).memory_mb(int(w.gpus)),
        nodes=1,
    params:
        compile_first=lambda w: ["--compile-first"] if w.gpus == "1" else [],
        timing=lambda w: json.dumps(run_of(w).timing, sort_keys=True),
        journal="{root}/{device}/{environment}/journal/{op}.{gpus}.jsonl",
        world_sizes=lambda w: [
            "--world-sizes",
            *run_of(w).world_sizes_by_job(w.op)[int(w.gpus)],
        ],
    message:
        "measure {wildcards.op} on {wildcards.gpus} of {wildcards.device}"
