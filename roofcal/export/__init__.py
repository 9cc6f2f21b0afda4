"""Calibrations in the files that other tools load.

subject   what is exported           formats    the formats by name
training  torchao, Calculon          inference  AIConfigurator, llm-analysis, GenZ
tables    CSV, JSON, YAML, Markdown, LaTeX
"""
