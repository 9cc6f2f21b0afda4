"""The made-up runs of the report, which its tests read as well."""

from tests.roofcal.report.conftest import bare, folder, h200, run  # noqa: F401 (fixtures)
