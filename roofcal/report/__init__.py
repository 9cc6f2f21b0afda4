"""The report of one or more runs: a page of answers, a page of details, and tables behind both."""
