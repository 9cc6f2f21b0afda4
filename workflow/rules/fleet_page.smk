# Exit code 1 says that a card is slow: news for the page, no failure of the rule.
rule fleet_page:
    input:
        nodes=expand(
            "results/fleet/{{device}}/{{environment}}/{node}", node=FLEET_NODES
        ),
    output:
        "results/fleet/{device}/{environment}/fleet.html",
    log:
        "results/{device}/{environment}/log/fleet.log",
    wildcard_constraints:
        environment=CURRENT,
    conda:
        "../../environment.yml"
    params:
        folder=lambda w: f"results/fleet/{w.device}/{w.environment}",
    message:
        "compare the cards of {wildcards.device}: {output}"
    shell:
        "{{ python -m roofcal fleet {params.folder:q} --page {output:q} || [ -f {output:q} ]; }}"
        " 2>&1 | tee {log:q}"
