"""The report: one HTML page of one or more runs, and the tables behind it.

kit       what every section draws and writes with
data      run folders as tables
sections  one folder per section
page      the ordered list of sections, by question
"""
