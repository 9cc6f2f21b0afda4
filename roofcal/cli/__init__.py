"""The command line: commands are functions, read from their signatures and docstrings."""
