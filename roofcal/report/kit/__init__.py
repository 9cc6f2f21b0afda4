"""What every section draws and writes with; it knows no section and no op."""
