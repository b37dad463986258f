"""The console's own widgets, one a file."""
