# Joins everything: what was planned, measured and predicted in every run, current, earlier and
# published. Its page is the report; it is registered so that `snakemake --report report.zip` carries
# it too, first in the menu, which is sorted by name, and each of its figures by itself: question by
# question, with its caption. That report opens on what the log says (reports/captions/answer.rst).
# They have one label: the built-in report turns a second one with two values into a switch, and
# breaks where a figure has one position of it alone.
# What the ledgers of claims say is a parameter, so that a comment in one runs nothing.


rule report:
    input:
        records=[file for run in RUNS.values() for file in run.records()],
        derived=[file for run in RUNS.values() for file in run.derivatives()],
        moved=[
            str(run.derived / "moved.json")
            for run in RUNS.values()
            if with_run_before(run, RUNS.values())
        ],
        datasheets=[file for run in RUNS.values() for file in run.datasheet()],
        sources=SOURCES["report"],
    output:
        page=report(
            "results/report/report.html",
            caption="../../reports/captions/report.rst",
            category="Answers",
            labels={"page": "every answer on one page"},
        ),
        figures=report(
            directory("results/report/figures"),
            patterns=["{question}/{device}/{figure}.{op}.svg"],
            caption="../../reports/captions/figure.rst",
            category=lambda wildcards: f"{wildcards.question.replace('_', ' ')}?",
            subcategory="{device}",
            labels=lambda wildcards: {
                "figure": f"{figure_title(wildcards.figure, wildcards.op)} ({wildcards.op})"
            },
        ),
        details="results/report/details.html",
        tables=directory("results/report/tables"),
    log:
        "results/report/report.log",
    conda:
        "../../environment.yml"
    params:
        # Functions, because what a string has in braces ({value}) Snakemake takes for wildcards.
        captions=lambda _: all_captions(),
        claims=lambda _: json.dumps(
            [ledger.model_dump(mode="json") for ledger in STUDY.ledgers],
            sort_keys=True,
        ),
        runs=[f"--run={run.folder}={run.derived}" for run in RUNS.values()],
    message:
        "write {output.page}"
    # Both writers of the log append: each would overwrite the other from a place of its own.
    shell:
        ": > {log:q}; python -m roofcal report {params.runs:q} --out {output.page:q}"
        " --figures {output.figures:q} 2>> {log:q} | tee -a {log:q}"
