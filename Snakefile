# The study is workflow/Snakefile, where Snakemake's catalog and other workflows look for it.
include: "workflow/Snakefile"


# `include` forgets the default target of the file that it reads: without this line `snakemake` finds
# nothing to do.
workflow.default_target = "all"
