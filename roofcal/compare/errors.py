"""What is wrong with a question to compare."""


class CompareError(ValueError):
    """Two runs that cannot be compared, or a name that is no run; the message says what there is."""
