"""docs/house.md shows the imports of the code, and refuses a circle."""

from graphlib import CycleError

import pytest

from tools.write_house import PAGE, house_page, imports_by_room


def test_the_page_shows_the_imports_of_the_code() -> None:
    assert PAGE.read_text() == house_page(imports_by_room()), "run: python -m tools.write_house"


def test_an_arrow_that_follows_from_others_is_left_out() -> None:
    imports = {"kernels.gather": {"kernels.gemm", "kernels.common"}}
    imports |= {"kernels.gemm": {"kernels.common"}, "kernels.common": set()}
    page = house_page(imports)
    assert "    kernels.gather --> kernels.gemm\n    kernels.gemm --> kernels.common\n" in page
    assert "kernels.gather --> kernels.common" not in page


def test_rooms_that_import_in_a_circle_are_refused() -> None:
    circle = {"kernels.cast": {"kernels.gemm"}, "kernels.gemm": {"kernels.cast"}}
    with pytest.raises(CycleError):
        house_page(circle)
