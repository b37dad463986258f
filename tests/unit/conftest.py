"""What unit tests share."""

from tests.at_work import metrics_store

__all__ = ["metrics_store"]
