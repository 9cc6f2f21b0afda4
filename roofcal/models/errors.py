"""What goes wrong when a prediction is asked for."""


class PredictError(ValueError):
    """A question that no calibration here answers; the message says what is allowed."""
