"""The six places of the console, each with its first screen, whose module is loaded on its first visit."""

from __future__ import annotations

from collections.abc import Callable

from textual.screen import Screen


def _jobs() -> Screen[None]:
    from footplate.screens.jobs import JobsScreen

    return JobsScreen()


def _clusters() -> Screen[None]:
    from footplate.screens.clusters import ClustersScreen

    return ClustersScreen()


def _models() -> Screen[None]:
    from footplate.screens.models import ModelsScreen

    return ModelsScreen()


def _endpoints() -> Screen[None]:
    from footplate.screens.endpoints import EndpointsScreen

    return EndpointsScreen()


def _launch() -> Screen[None]:
    from footplate.screens.templates import TemplatesScreen

    return TemplatesScreen()


def _invoke() -> Screen[None]:
    from footplate.screens.invoke import InvokeScreen

    return InvokeScreen()


MODES: dict[str, Callable[[], Screen[None]]] = {
    "jobs": _jobs,
    "clusters": _clusters,
    "models": _models,
    "endpoints": _endpoints,
    "launch": _launch,
    "invoke": _invoke,
}


LISTS = ("jobs", "clusters", "endpoints")
"""Places whose key leads to the list, whatever was opened from it."""
