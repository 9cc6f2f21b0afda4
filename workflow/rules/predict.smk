# Reads plan, calibration and descriptions of the device, never a measurement.
rule predict:
    input:
        environment=lambda w: run_of(w).environment,
        plan=lambda w: run_of(w).plans([w.op]),
        calibration="{root}/{device}/{environment}/calibration.jsonl",
        datasheet=lambda w: run_of(w).datasheet(),
        wave_device=lambda w: run_of(w).wave_device(),
        sources=DONE_BY["predict"],
    output:
        "{root}/{device}/{environment}/predictions/{op}.jsonl",
    log:
        "{root}/{device}/{environment}/log/predict_{op}.log",
    conda:
        "../../environment.yml"
    params:
        run=lambda w: run_of(w).folder,
    shell:
        "python -m roofcal predict --run {params.run} --calibration {input.calibration}"
        " --op {wildcards.op} --out {output} > {log} 2>&1"
