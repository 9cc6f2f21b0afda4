# Which cards of a cluster are slow? `snakemake fleet`, one job per node of `fleet_nodes`; every card
# of it is measured in turn. No part of the study: nothing else asks for these files.
# Code is no input: a fleet is compared with itself, so all of it is measured again, or nothing.
rule fleet_node:
    input:
        environment="results/{device}/{environment}/environment.jsonl",
        panel=str(CONFIG / "health.yaml"),
    output:
        directory("results/fleet/{device}/{environment}/{node}"),
    log:
        "results/{device}/{environment}/log/fleet_{node}.log",
    wildcard_constraints:
        environment=CURRENT,
        node=any_of(FLEET_NODES),
    conda:
        "../../environment.yml"
    # One card at a time, but for the link between two.
    threads: lambda w: run_of(w).cores(min(2, run_of(w).gpus_of_node()))
    resources:
        device=2,
        gpu=lambda w: run_of(w).gpus_of_node(),
        nodes=1,
        mem_mb=lambda w: run_of(w).memory_mb(min(2, run_of(w).gpus_of_node())),
        slurm_extra=lambda w: f"--nodelist={w.node}" if STUDY.file.fleet_nodes else "",
    message:
        "measure every card of {wildcards.node}"
    shell:
        "python -m roofcal health --every-card --node {wildcards.node:q} --out results/fleet"
        " --environment {input.environment:q} 2>&1 | tee {log:q}"
