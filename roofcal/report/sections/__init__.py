"""The sections of a chapter, one folder each; `roofcal/report/page.py` puts them in order.

`__init__.py` of a folder computes its tables, draws its figures and declares SECTION; <figure>.md
is the caption of a figure, and <file>.csv.md describes the columns of a file. A section of several
thoughts has further modules.
"""
