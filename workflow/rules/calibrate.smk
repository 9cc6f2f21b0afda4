# Reads the measurements of probes alone, so that no point it will be judged on leaks into the fit.
rule calibrate:
    input:
        environment=lambda w: str(run_of(w).environment_file),
        plans=lambda w: run_of(w).plans(run_of(w).probes),
        measurements=lambda w: run_of(w).measurements(run_of(w).probes),
        datasheet=lambda w: run_of(w).datasheet(),
        priors=lambda w: run_of(w).priors(),
        sources=SOURCES["calibrate"],
    output:
        "{root}/{device}/{environment}/calibration.jsonl",
    log:
        "{root}/{device}/{environment}/log/calibrate.log",
    conda:
        "../../environment.yml"
    params:
        run=lambda w: run_of(w).folder,
    message:
        "calibrate {wildcards.device} from its probes"
    shell:
        "python -m roofcal calibrate --run {params.run:q} --out {output:q} > {log:q} 2>&1"
