"""What every section draws and writes with; it knows no section, no op and no record."""
