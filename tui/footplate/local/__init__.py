"""The workspace on this machine: its store, its jobs, its models, its endpoints."""
