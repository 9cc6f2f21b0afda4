rule plan:
    input:
        environment="{root}/{device}/{environment}/environment.jsonl",
        shapes=lambda w: run_of(w).shape_files(w.op),
        sources=lambda w: SOURCES[f"plan_{w.op}"],
    output:
        "{root}/{device}/{environment}/plan/{op}.jsonl",
    log:
        "{root}/{device}/{environment}/log/plan_{op}.log",
    wildcard_constraints:
        root="results",
        environment=CURRENT,
        op=any_of(MEASURED),
    # Before measurements, and one after the other in their order (profiles/default): an op is measured
    # as soon as it is planned, and on an H200 the last one was planned first.
    priority: lambda w: 100 + run_of(w).priority(w.op)
    conda:
        "../../environment.yml"
    resources:
        planning=lambda w: run_of(w).planning_slots(),
    params:
        slice=lambda w: json.dumps(run_of(w).slices[w.op], sort_keys=True),
    message:
        "plan {wildcards.op} on {wildcards.device}"
    shell:
        "python -m roofcal plan --op {wildcards.op:q} --environment {input.environment:q}"
        " --slice {params.slice:q} --out {output:q} > {log:q} 2>&1"
