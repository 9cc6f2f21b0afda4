# Reads the calibration alone: speed-ups are predicted for shapes that nobody measured.
rule breakeven:
    input:
        calibration="{root}/{device}/{environment}/calibration.jsonl",
        sources=SOURCES["predict"],
    output:
        "{root}/{device}/{environment}/breakeven.csv",
    log:
        "{root}/{device}/{environment}/log/breakeven.log",
    conda:
        "../../environment.yml"
    params:
        run=lambda w: run_of(w).folder,
    message:
        "break-even points of {wildcards.device}"
    shell:
        "python -m roofcal breakeven --run {params.run:q} --calibration {input.calibration:q}"
        " --out {output:q} > {log:q} 2>&1"
