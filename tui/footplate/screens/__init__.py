"""The console's screens, one file each."""
