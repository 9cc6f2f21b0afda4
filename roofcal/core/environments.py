"""The order of environment ids: a later driver, torch or triton comes after an earlier one."""

import re


def version_key(environment_id: str) -> list[tuple[int, str]]:
    """Sorts torch2.11 after torch2.9: numbers by value, what is between them as text."""
    parts = re.split(r"(\d+)", environment_id)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
