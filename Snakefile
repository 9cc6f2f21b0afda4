# The study: plan -> measure -> calibrate -> predict -> report. `snakemake` runs it, `snakemake -n`
# says what it would do and why. Only `measure` needs the device; every other rule runs beside
# Snakemake, also on a cluster. config/ is read by roofcal itself, which reports all its errors at
# once; `--config study=standard` and `--configfile FILE` override config/config.yaml.
from snakemake.utils import min_version

min_version("9.27")


include: "workflow/rules/common.smk"
include: "workflow/rules/plan.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/calibrate.smk"
include: "workflow/rules/learning.smk"
include: "workflow/rules/predict.smk"
include: "workflow/rules/breakeven.smk"
include: "workflow/rules/llm.smk"
include: "workflow/rules/compare.smk"
include: "workflow/rules/report.smk"


localrules:
    all,
    plan,
    calibrate,
    learning,
    predict,
    breakeven,
    llm,
    compare,
    report,


rule all:
    default_target: True
    input:
        rules.report.output.page,
