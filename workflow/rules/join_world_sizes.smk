# What the jobs of an op measured becomes one file, as if one job had measured it.
rule join_world_sizes:
    input:
        plan="{root}/{device}/{environment}/plan/{op}.jsonl",
        parts=lambda w: run_of(w).measured_parts(w.op),
    output:
        "{root}/{device}/{environment}/measurements/{op}.jsonl",
    log:
        "{root}/{device}/{environment}/log/join_{op}.log",
    wildcard_constraints:
        root="results",
        environment=CURRENT,
        op=any_of(SHARED_OUT),
    conda:
        "../../environment.yml"
    message:
        "join what was measured of {wildcards.op} on {wildcards.device}"
    shell:
        "python -m roofcal join {input.parts:q} --plan {input.plan:q} --out {output:q} > {log:q} 2>&1"
