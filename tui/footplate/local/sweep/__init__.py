"""Sweeps on this machine: draws, early termination, the best trial, and the process that oversees the trials."""
