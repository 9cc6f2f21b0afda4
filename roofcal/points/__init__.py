"""The one table of measured points: its columns, its reader, and what is made of both."""
