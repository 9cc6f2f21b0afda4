"""What goes wrong when a calibration is exported."""


class ExportError(ValueError):
    """A format that cannot be written; the message says what is missing and the way out."""
