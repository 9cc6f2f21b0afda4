"""The sections of a chapter, one folder each; `roofcal/report/page.py` puts them in order.

`__init__.py` of a folder declares SECTION; its other files compute its tables and draw its figures,
and <figure>.md is the caption of each figure.
"""
