"""Run folders as tables, and what several sections show of them; knows no section."""
