"""Azure ML job files: read with positions, checked, resolved, edited in place."""

from footplate.jobfile.document import JobFile, read
from footplate.jobfile.plan import Plan, RankCommand, plan

__all__ = ["JobFile", "Plan", "RankCommand", "plan", "read"]
