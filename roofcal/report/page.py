"""The page: questions of a reader, and the sections that answer them, in order.

To add a section: its folder in `roofcal/report/sections/`, and its line in ORDER.
"""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Final

from roofcal.report.section import Section

# Questions of a reader in the order of the page: key, by which sections name it -> title
QUESTIONS: Final = {
    "recipe": "Which recipe for my layer?",
    "weights": "Do narrow weights pay?",
    "models": "How fast are language models?",
    "roofs": "How close to its roofs does it run?",
    "healthy": "Is my GPU healthy?",
    "changed": "What moved?",
    "trust": "Can I trust the prediction?",
    "ledger": "Do the claims hold?",
    "how": "How was this measured?",
}

# Folders of sections in the order of the page; sections of one question stand together.
ORDER: Final = (
    "breakeven",
    "speedup",
    "latency",
    "linear_accuracy",
    "gathered",
    "energy",
    "mixed",
    "llm",
    "llm_sweep",
    "roofline",
    "bandwidth",
    "health",
    "cards",
    "moved",
    "prediction_errors",
    "judged_layers",
    "constants",
    "audit",
    "claims",
    "quality",
    "method_panel",
    "missing",
    "points",
    "provenance",
)


# Imported by name so that one line adds a section. No import statement has to show it: every file
# of roofcal/report counts as a source of the report.
SECTIONS: Final[tuple[Section, ...]] = tuple(
    replace(import_module(f"{__package__}.sections.{folder}").SECTION, key=folder.replace("_", "-"))
    for folder in ORDER
)


class PageError(ValueError):
    """A list of sections that makes no page; the message names the section."""


def sections_by_question(sections: Sequence[Section] = SECTIONS) -> dict[str, list[Section]]:
    """Key of every question -> its sections, in order.

    Raises:
        PageError: a section names no question of QUESTIONS, or two sections have one key.
    """
    keys = [section.key for section in sections]
    for section in sections:
        if section.question not in QUESTIONS:
            raise PageError(
                f"section '{section.key}' stands under no question: '{section.question}' is none "
                f"of {', '.join(QUESTIONS)}"
            )
        if keys.count(section.key) > 1:
            raise PageError(f"two sections have the key '{section.key}'")
    return {
        question: [section for section in sections if section.question == question]
        for question in QUESTIONS
    }
