"""The pages of the families of kernels say what the published tables say."""

import pytest

from tests.paths import ROOT
from tools.method_numbers import tables_of_devices
from tools.write_kernel_tables import (
    FAMILIES,
    family_page,
    readme_of,
)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_page_of_a_family_is_up_to_date(family: str) -> None:
    page = readme_of(family).read_text(encoding="utf-8")
    fresh = family_page(family, *tables_of_devices())
    assert page == fresh, "run: python -m tools.write_kernel_tables"


def test_every_family_of_kernels_has_a_page() -> None:
    folders = {path.parent.name for path in (ROOT / "kernels").glob("*/__init__.py")}
    assert folders - set(FAMILIES) == {"common"}
