# Reads calibration, datasheet and the models of config/models: nothing here was measured. What the
# files of models say is a parameter, so that a comment in one runs nothing.
rule llm:
    input:
        calibration="{root}/{device}/{environment}/calibration.jsonl",
        datasheet=lambda w: run_of(w).datasheet(),
        sources=SOURCES["predict"],
    output:
        "{root}/{device}/{environment}/llm.csv",
    log:
        "{root}/{device}/{environment}/log/llm.log",
    conda:
        "../../environment.yml"
    params:
        run=lambda w: run_of(w).folder,
        models=json.dumps(
            {
                name: model.model_dump(mode="json")
                for name, model in STUDY.models.items()
            },
            sort_keys=True,
        ),
    message:
        "language models on {wildcards.device}"
    shell:
        "python -m roofcal llm --run {params.run:q} --calibration {input.calibration:q}"
        " --out {output:q} > {log:q} 2>&1"
