"""Bounds of footplate's own on what a job file may ask for."""

from __future__ import annotations

MOST_RANKS = 4096
"""Processes of one job, nodes × processes a node: a plan lists each of them, and a mistyped number would fill the memory."""
