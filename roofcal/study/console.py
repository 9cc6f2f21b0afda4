"""What Snakemake prints of a study: a line per job instead of a page of file names.

Only the terminal is shortened. The log files of the jobs, and Snakemake's own log, stay complete.
"""

import logging
from typing import Final

_JOB: Final = "job_info"  # snakemake_interface_logger_plugins.common.LogEvent.JOB_INFO


class JobLines(logging.Formatter):
    """Formats the record of a job as its message and the first reason why it runs."""

    def __init__(self, formatter: logging.Formatter, *, details: bool) -> None:
        """Leave other records to `formatter`; with `details` jobs as well, with all their files."""
        super().__init__()
        self._formatter, self._details = formatter, details

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        message = getattr(record, "rule_msg", None)
        if getattr(record, "event", None) != _JOB or not message:
            return self._formatter.format(record)
        if self._details:
            complete = logging.makeLogRecord({**record.__dict__, "rule_msg": None})
            return self._formatter.format(complete)
        reason = str(getattr(record, "reason", "")).split(";")[0].split(":")[0].strip()
        return f"{message} ({reason[:1].lower()}{reason[1:]})" if reason else str(message)


def print_job_lines(logger: logging.Logger, *, details: bool) -> None:
    """Print one line per job on the terminal of a Snakemake logger.

    details: print files, reasons and resources of every job there too.
    """
    for handler in logger.handlers:
        to_file = isinstance(handler, logging.FileHandler)
        inner = handler.formatter or logging.Formatter()
        handler.setFormatter(JobLines(inner, details=details or to_file))
