"""A static site over all publications: pages open from file:// and load nothing from outside."""
