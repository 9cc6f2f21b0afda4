"""What Snakemake needs: configuration, plans, run folders, staleness."""
