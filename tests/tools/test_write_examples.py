"""Examples of the documentation are written from what their commands print."""

from tools import write_examples


def test_an_example_gets_the_output_of_its_command() -> None:
    page = "Text.\n\n    $ roofcal table --nothing\n    stale\n\n    staler\n\nMore text.\n"

    fresh = write_examples._EXAMPLE.sub(write_examples.with_output, page)

    assert fresh.startswith("Text.\n\n    $ roofcal table --nothing\n    error: unknown option ")
    assert "stale" not in fresh
    assert fresh.endswith("\n\nMore text.\n")
    of_this_machine = "    $ roofcal doctor\n    torch 2.11\n"
    assert write_examples._EXAMPLE.sub(write_examples.with_output, of_this_machine) == (
        of_this_machine
    )


def test_values_of_python_examples_are_written_anew_and_those_that_hold_stay() -> None:
    page = "Text\n\n    >>> side = 3\n    >>> side * side\n    8\n    >>> side\n    3\n\nMore\n"
    assert write_examples.with_values(page) == page.replace("    8\n", "    9\n")
