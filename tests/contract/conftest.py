"""The workspaces that the contract is held against."""

from tests.at_work import home, metrics_store, workspace

__all__ = ["home", "metrics_store", "workspace"]
