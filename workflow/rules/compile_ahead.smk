# Compiles what measuring an op needs, on cores that measuring leaves free and without work on the GPU:
# a compilation takes seconds, in which the GPU would idle. On an H100 the ops that need no compiler are
# measured first and take 80 s, in which 16 cores compile the others.
# No op is left out because this fails: what is not compiled here is compiled where it is timed.
rule compile_ahead:
    input:
        plan="{root}/{device}/{environment}/plan/{op}.jsonl",
        environment="{root}/{device}/{environment}/environment.jsonl",
        sources=lambda w: SOURCES[f"measure_{w.op}"],
    output:
        "{root}/{device}/{environment}/compiled/{op}.jsonl",
    log:
        "{root}/{device}/{environment}/log/compile_{op}.log",
    wildcard_constraints:
        root="results",
        environment=CURRENT,
        op=any_of(MEASURED),
    priority: lambda w: run_of(w).priority(w.op)
    conda:
        "../../environment.yml"
    threads: lambda w: run_of(w).compiling_cores(workflow.cores)
    message:
        "compile {wildcards.op} for {wildcards.device}"
    shell:
        "python -m roofcal compile --plan {input.plan:q} --environment {input.environment:q}"
        " --processes {threads:q} --out {output:q} > {log:q} 2>&1 || touch {output:q}"
