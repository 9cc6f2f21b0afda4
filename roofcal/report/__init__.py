"""The report: tidy tables, figures and one HTML page, from files of records alone."""
