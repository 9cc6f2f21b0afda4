# Reads the measurements of probes alone, as `calibrate` does, and no calibration: it fits its own.
rule learning:
    input:
        environment=lambda w: str(run_of(w).environment_file),
        plans=lambda w: run_of(w).plans(run_of(w).probes),
        measurements=lambda w: run_of(w).measurements(run_of(w).probes),
        datasheet=lambda w: run_of(w).datasheet(),
        sources=SOURCES["calibrate"],
    output:
        "{root}/{device}/{environment}/learning.csv",
    log:
        "{root}/{device}/{environment}/log/learning.log",
    conda:
        "../../environment.yml"
    params:
        run=lambda w: run_of(w).folder,
    message:
        "error by number of probes of {wildcards.device}"
    shell:
        "python -m roofcal learning --run {params.run:q} --out {output:q} > {log:q} 2>&1"
