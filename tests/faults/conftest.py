"""A home of its own for every fault."""

from tests.at_work import home, metrics_store, one_node, workspace

__all__ = ["home", "metrics_store", "one_node", "workspace"]
