# The only rule that needs the device. It takes every core, because nothing may run beside it, and
# the only `device` there is (profiles/default), because two measurements would disturb each other.
# The journal is no output: it outlives a failure, and a restart takes what it holds.
rule measure:
    input:
        plan="{root}/{device}/{environment}/plan/{op}.jsonl",
        environment="{root}/{device}/{environment}/environment.jsonl",
        sources=lambda w: MEASURED_BY[w.op],
    output:
        "{root}/{device}/{environment}/measurements/{op}.jsonl",
    log:
        "{root}/{device}/{environment}/log/measure_{op}.log",
    benchmark:
        "{root}/{device}/{environment}/log/measure_{op}.tsv"
    wildcard_constraints:
        root="results",
        environment=CURRENT,
    conda:
        "../../environment.yml"
    threads: os.cpu_count()
    resources:
        device=1,
        gpu=lambda w: run_of(w).gpus(w.op),
        nodes=1,
    params:
        timing=lambda w: json.dumps(run_of(w).timing, sort_keys=True),
        journal="{root}/{device}/{environment}/journal/{op}.jsonl",
    shell:
        "python -m roofcal measure --plan {input.plan:q} --environment {input.environment:q}"
        " --timing {params.timing:q} --journal {params.journal:q} --out {output:q} 2>&1 | tee {log:q}"
