"""A home of its own for every run of real jobs."""

from tests.at_work import home, metrics_store, one_node, workspace

__all__ = ["home", "metrics_store", "one_node", "workspace"]
