rule plan:
    input:
        environment="{root}/{device}/{environment}/environment.jsonl",
        shapes=lambda w: shape_files(op_slice(w)),
        sources=lambda w: plan_sources(w.op),
    output:
        "{root}/{device}/{environment}/plan/{op}.jsonl",
    log:
        "{root}/{device}/{environment}/log/plan_{op}.log",
    wildcard_constraints:
        root="results",
        environment=CURRENT,
    # All plans before the first measurement: what cannot be planned shows in the first minute.
    priority: 10
    conda:
        "../../environment.yml"
    params:
        slice=lambda w: json.dumps(op_slice(w), sort_keys=True),
    shell:
        "python -m roofcal plan --op {wildcards.op} --environment {input.environment}"
        " --slice {params.slice:q} --out {output} > {log} 2>&1"
