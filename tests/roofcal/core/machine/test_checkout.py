"""Which commit runs."""

from pathlib import Path

import pytest

from roofcal.core.machine import checkout


def test_the_commit_outside_a_checkout_is_the_one_that_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout, "CHECKOUT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("ROOFCAL_GIT_COMMIT", raising=False)
    assert checkout.checkout_commit() is None
    assert checkout.checkout_is_dirty() is None
    monkeypatch.setenv("ROOFCAL_GIT_COMMIT", "c0ffee")
    assert checkout.checkout_commit() == "c0ffee"
