# Reads plan, calibration and the device's file, never a measurement. Calibrations of the
# device's other environments predict the plan too: how well does one carry over?
rule predict:
    input:
        environment=lambda w: str(run_of(w).environment_file),
        plan=lambda w: run_of(w).plans([w.op]),
        calibration="{root}/{device}/{environment}/calibration.jsonl",
        others=lambda w: other_calibrations(run_of(w), RUNS.values()),
        datasheet=lambda w: run_of(w).datasheet(),
        sources=SOURCES["predict"],
    output:
        "{root}/{device}/{environment}/predictions/{op}.jsonl",
    log:
        "{root}/{device}/{environment}/log/predict_{op}.log",
    conda:
        "../../environment.yml"
    params:
        run=lambda w: run_of(w).folder,
        also=lambda w, input: ["--also", *input.others] if input.others else [],
    message:
        "predict {wildcards.op} on {wildcards.device}"
    shell:
        "python -m roofcal predict --run {params.run:q} --calibration {input.calibration:q}"
        " --op {wildcards.op:q} {params.also:q} --out {output:q} > {log:q} 2>&1"
