"""The message for a name that is not known."""

import pytest

from roofcal.models.errors import PredictError
from roofcal.models.torchao.names import check_known


def test_a_known_name_passes() -> None:
    check_known("role", "input", ["input", "weight"])


def test_an_unknown_name_gets_the_nearest_and_all() -> None:
    says = r"^torchao: unknown role 'inptu'; did you mean 'input'\? known: input, weight$"
    with pytest.raises(PredictError, match=says):
        check_known("role", "inptu", ["weight", "input"])


def test_a_name_like_none_of_them_gets_the_list_alone() -> None:
    with pytest.raises(PredictError, match=r"^torchao: unknown role 'x'; known: input$"):
        check_known("role", "x", ["input"])
