"""One folder per section of a chapter; `roofcal/report/page.py` puts them in order."""
