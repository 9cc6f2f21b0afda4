# Joins everything: what was planned, measured and predicted in every run, current, earlier and
# published. Its page is the report; it is registered so that `snakemake --report` carries it too.
# What the ledgers of claims say is a parameter, so that a comment in one runs nothing.
rule report:
    input:
        records=[file for run in RUNS.values() for file in run.records()],
        derived=[file for run in RUNS.values() for file in run.derivatives()],
        moved=[
            f"{run.derived}/moved.json"
            for run in RUNS.values()
            if with_run_before(run, RUNS.values())
        ],
        datasheets=[file for run in RUNS.values() for file in run.datasheet()],
        sources=DONE_BY["report"],
    output:
        page=report(
            "results/report/report.html",
            caption="../../reports/captions/report.rst",
            category="Study",
            labels={"page": "calibrated rooflines"},
        ),
        tables=directory("results/report/tables"),
    log:
        "results/report/report.log",
    conda:
        "../../environment.yml"
    params:
        # A function, because what a string has in braces ({value}) Snakemake takes for wildcards.
        claims=lambda _: json.dumps(
            [ledger.model_dump(mode="json") for ledger in STUDY.ledgers],
            sort_keys=True,
        ),
        runs=[f"--run {run.folder}={run.derived}" for run in RUNS.values()],
    shell:
        "python -m roofcal report {params.runs} --out {output.page} > {log} 2>&1"
