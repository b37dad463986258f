"""The parts of an Azure workspace, made together round one client: the module that loads Azure's libraries."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from footplate.azure.client import Client
from footplate.azure.clouds import Cloud
from footplate.azure.clusters import Clusters
from footplate.azure.data import Data
from footplate.azure.downloads import Downloads
from footplate.azure.endpoints import Endpoints
from footplate.azure.index import Index
from footplate.azure.jobs import Jobs
from footplate.azure.known_jobs import KnownJobs
from footplate.azure.list_details import ListDetails
from footplate.azure.logs import Logs
from footplate.azure.metrics import Metrics
from footplate.azure.models import Models
from footplate.azure.monitor import Monitor
from footplate.azure.permissions import Permissions
from footplate.azure.place import Place
from footplate.azure.runs import Runs
from footplate.azure.sign_in import credential_of
from footplate.azure.storage import Storage
from footplate.settings import AzureSettings


@dataclass(frozen=True)
class Parts:
    """The client, and what it reads."""

    client: Client
    clusters: Clusters
    data: Data
    downloads: Downloads
    endpoints: Endpoints
    jobs: Jobs
    known_jobs: KnownJobs
    logs: Logs
    metrics: Metrics
    models: Models
    monitor: Monitor
    permissions: Permissions


def make(cloud: Cloud, place: Place, settings: AzureSettings, index: Index) -> Parts:
    """All parts. Raises Invalid where `AZURE_TOKEN_CREDENTIALS` names no way to sign in."""
    quieten()
    client = Client(cloud, place, credential_of(cloud, settings.tenant_id, settings.token_env, settings.token_cache))
    runs, storage, endpoints = Runs(client), Storage(client), Endpoints(client)
    clusters, metrics = Clusters(client), Metrics(client)
    jobs = Jobs(client, runs, storage, clusters, metrics)
    models = Models(client, storage, jobs)
    return Parts(
        client=client,
        clusters=clusters,
        data=Data(client),
        downloads=Downloads(jobs, models, storage),
        endpoints=endpoints,
        jobs=jobs,
        known_jobs=KnownJobs(jobs, index, ListDetails(runs, metrics, index)),
        logs=Logs(client, runs),
        metrics=metrics,
        models=models,
        monitor=Monitor(client, endpoints),
        permissions=Permissions(client),
    )


def quieten() -> None:
    """Without a handler of its own, a warning of Azure's libraries goes to the terminal, across the console."""
    for name in ("azure", "msal"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
