# Needs the device, and takes both halves of it (profiles/default), because two
# measurements would disturb each other. On a CPU it takes every core as well: nothing may run beside
# it. On a GPU it takes a few, and derived files are made on the others; where the machine has one GPU
# it takes half, so that the process of the next op waits for the GPU with everything imported.
# The journal is no output: it outlives a failure, and a restart takes what it holds.
rule measure:
    input:
        plan="{root}/{device}/{environment}/plan/{op}.jsonl",
        environment="{root}/{device}/{environment}/environment.jsonl",
        sources=lambda w: SOURCES[f"measure_{w.op}"],
        compiled=ancient(lambda w: run_of(w).compiled(w.op)),
    output:
        "{root}/{device}/{environment}/measurements/{op}.jsonl",
    log:
        "{root}/{device}/{environment}/log/measure_{op}.log",
    benchmark:
        "{root}/{device}/{environment}/log/measure_{op}.tsv"
    wildcard_constraints:
        root="results",
        environment=CURRENT,
        op=any_of(MEASURED - SHARED_OUT),
    priority: lambda w: run_of(w).priority(w.op)
    conda:
        "../../environment.yml"
    threads: lambda w: run_of(w).cores(run_of(w).gpus(w.op))
    resources:
        device=lambda w: run_of(w).device_halves(),
        gpu=lambda w: run_of(w).gpus(w.op),
        mem_mb=lambda w: run_of(w).memory_mb(run_of(w).gpus(w.op)),
        nodes=1,
    params:
        compile_first=lambda w: (
            ["--compile-first"] if run_of(w).has_job_per_world_size else []
        ),
        timing=lambda w: json.dumps(run_of(w).timing, sort_keys=True),
        journal="{root}/{device}/{environment}/journal/{op}.jsonl",
        world_sizes=[],
    message:
        "measure {wildcards.op} on {wildcards.device}"
    shell:
        "python -m roofcal measure --plan {input.plan:q} --environment {input.environment:q}"
        " {params.world_sizes:q} --timing {params.timing:q} {params.compile_first:q}"
        " --journal {params.journal:q} --out {output:q} 2>&1 | tee {log:q}"
