"""Run folders as tables: what several sections show."""
