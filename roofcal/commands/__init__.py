"""Commands of the command line, one file each: `add` declares it, `run` does it."""
