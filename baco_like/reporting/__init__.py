"""The report of a run: one HTML file that answers ten questions, from the journal alone."""

from baco_like.reporting.report import build_report, write_report

__all__ = ["build_report", "write_report"]
