# What moved since the environment before this one, by versions of driver, torch and triton. Exit
# codes 1 and 2 of a comparison that was written are news for the report, no failure of the study.
rule compare:
    input:
        records=lambda w: [
            f
            for run in with_run_before(run_of(w), RUNS.values())
            for f in run.records()
        ],
        derived=lambda w: [
            f
            for run in with_run_before(run_of(w), RUNS.values())
            for f in map(str, (run.calibration_file, run.breakeven_file))
        ],
        sources=SOURCES["compare"],
    output:
        "{root}/{device}/{environment}/moved.json",
    log:
        "{root}/{device}/{environment}/log/compare.log",
    conda:
        "../../environment.yml"
    params:
        pair=lambda w: [
            f"{run.folder}={run.derived}"
            for run in with_run_before(run_of(w), RUNS.values())
        ],
    message:
        "what moved on {wildcards.device} up to {wildcards.environment}"
    shell:
        "python -m roofcal compare {params.pair:q} --json --out {output:q} > {log:q} 2>&1 || [ -f {output:q} ]"
