"""What is wrong with a question to compare."""


class CompareError(ValueError):
    """Runs that cannot be compared, or a name that is no run; the message says what there is."""
