"""The parts of an Azure workspace, made together round one client: the module that loads Azure's libraries."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from footplate.azure.client import Client
from footplate.azure.clouds import Cloud
from footplate.azure.clusters import Clusters
from footplate.azure.credential import CachingCredential, VariableSource
from footplate.azure.data import Data
from footplate.azure.endpoints import Endpoints
from footplate.azure.jobs import Jobs
from footplate.azure.logs import Logs
from footplate.azure.metrics import Metrics
from footplate.azure.models import Models
from footplate.azure.place import Place
from footplate.azure.runs import Runs
from footplate.azure.sign_in import ChainSource
from footplate.azure.storage import Storage
from footplate.settings import AzureSettings


@dataclass(frozen=True)
class Parts:
    """The client, and what it reads."""

    client: Client
    clusters: Clusters
    data: Data
    endpoints: Endpoints
    jobs: Jobs
    logs: Logs
    metrics: Metrics
    models: Models


def make(cloud: Cloud, place: Place, settings: AzureSettings) -> Parts:
    """All parts. Raises Invalid where `AZURE_TOKEN_CREDENTIALS` names no way to sign in."""
    _quieten()
    source = VariableSource(settings.token_env) if settings.token_env else ChainSource(cloud, settings.tenant_id)
    client = Client(cloud, place, CachingCredential(source))
    runs, storage = Runs(client), Storage(client)
    return Parts(
        client=client,
        clusters=Clusters(client),
        data=Data(client),
        endpoints=Endpoints(client),
        jobs=Jobs(client, runs, storage),
        logs=Logs(client, runs),
        metrics=Metrics(client),
        models=Models(client, storage),
    )


def _quieten() -> None:
    """Without a handler of its own, a warning of Azure's libraries goes to the terminal, across the console."""
    for name in ("azure", "msal"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
