"""A static site over all publications: pages that open from file:// and load nothing from outside.

devices          the table of devices, and the page of each
points           times of published shapes, measured and predicted, for the scripts of the pages
write            the pages and their data
"""
