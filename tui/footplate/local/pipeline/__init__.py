"""Pipelines on this machine: what each step runs, and the process that runs them in their order."""
