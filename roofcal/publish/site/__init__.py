"""A static site over all publications: pages that open from file:// and load nothing from outside.

publications     what is shown, and what is left out because it does not hold
devices          the table of devices, and the page of each
points           times of published shapes, measured and predicted, for the scripts of the pages
language_models  tokens per second of language models on every device
write            the pages and their data
"""
