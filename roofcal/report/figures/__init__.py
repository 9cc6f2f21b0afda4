"""The figures of the report, one kind of question per module."""
