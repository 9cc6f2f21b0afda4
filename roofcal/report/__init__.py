"""The report of one or more runs: a page of answers, a page of details, and tables behind both.

kit        what every section draws and writes with
data       run folders as tables
sections   one folder per section
page       the ordered list of sections, by question
summary    what the first page says of a device
shape_box  what the first page needs to rank recipes at any shape
"""
