"""A job is a line on the terminal, and a paragraph in the log file."""

import logging
from pathlib import Path

from roofcal.study.console import JobLines, print_job_lines


class Complete(logging.Formatter):
    """Stands in for Snakemake's formatter: a message, or all files where a job has none."""

    def format(self, record: logging.LogRecord) -> str:
        return str(getattr(record, "rule_msg", None) or "rule measure: all its files")


def job(**values: object) -> logging.LogRecord:
    reason = "Missing output files: a.jsonl; Input files updated by another job: b.jsonl"
    known = {"event": "job_info", "rule_msg": "measure gemm", "reason": reason}
    return logging.makeLogRecord(known | values)


def test_a_job_is_its_message_and_the_first_reason() -> None:
    lines = JobLines(Complete(), details=False)
    assert lines.format(job()) == "measure gemm (missing output files)"
    assert lines.format(job(reason="")) == "measure gemm"


def test_details_and_other_records_are_left_to_snakemake() -> None:
    record = job()
    assert JobLines(Complete(), details=True).format(record) == "rule measure: all its files"
    assert record.__dict__["rule_msg"] == "measure gemm"  # other handlers format it, too
    error = job(event="job_error", rule_msg="Error in rule measure")
    assert JobLines(Complete(), details=False).format(error) == "Error in rule measure"


def test_the_terminal_is_shortened_and_the_log_file_is_not(tmp_path: Path) -> None:
    logger = logging.Logger("snakemake")
    terminal, file = logging.StreamHandler(), logging.FileHandler(tmp_path / "log")
    for handler in (terminal, file):
        handler.setFormatter(Complete())
        logger.addHandler(handler)

    print_job_lines(logger, details=False)

    assert terminal.format(job()) == "measure gemm (missing output files)"
    assert file.format(job()) == "rule measure: all its files"
    file.close()
