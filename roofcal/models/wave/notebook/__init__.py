"""The notebook's own formulas, inconsistencies and all, to show that its printed figures come out.

Nothing else uses them; docs/models.md says what is wrong with each.
"""
