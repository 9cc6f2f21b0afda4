"""The notebook's own formulas, inconsistencies and all, to show that its printed figures come out.

Nothing else uses them: roofcal.models.wave says what is wrong with each. They take the device of
config/wave/amd-mi300x-notebook.yaml; a file without a section `notebook` raises PredictError.
"""
