"""Is a card slower than others of its kind, and why? Cards of a fleet, or one and a publication."""
