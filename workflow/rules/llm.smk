# Reads calibration, datasheet and the models of config/models: nothing here was measured.
rule llm:
    input:
        calibration="{root}/{device}/{environment}/calibration.jsonl",
        datasheet=lambda w: run_of(w).datasheet(),
        models=[f"config/models/{name}.yaml" for name in STUDY.models],
        sources=DONE_BY["predict"],
    output:
        "{root}/{device}/{environment}/llm.csv",
    log:
        "{root}/{device}/{environment}/log/llm.log",
    conda:
        "../../environment.yml"
    params:
        run=lambda w: run_of(w).folder,
    shell:
        "python -m roofcal llm --run {params.run} --calibration {input.calibration}"
        " --out {output} > {log} 2>&1"
