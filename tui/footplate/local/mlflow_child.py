"""What needs MLflow itself, run in a process of its own with the Python that runs jobs: `python mlflow_child.py ACT JSON`.

Stands alone. Prints one line of JSON at its end. Exit code 3: MLflow is not installed there.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
NOT_INSTALLED = 3


def create_store(uri: str, artifacts: str) -> None:
    """Make MLflow's SQLite store and its default experiment."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(uri, artifacts)  # type: ignore[no-untyped-call]  # MLflow's own


def create_run(uri: str, experiment: str, artifacts: str, name: str, tags: dict[str, str]) -> dict[str, str]:
    """Make a run, and its experiment where it is new."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    experiment_id = found.experiment_id if found else client.create_experiment(experiment, artifacts)
    run = client.create_run(experiment_id, run_name=name, tags=tags)
    return {"run_id": run.info.run_id, "experiment_id": experiment_id}


def finish_run(uri: str, run_id: str, status: str, ended_ms: int, parameters: dict[str, str]) -> None:
    """Write a run's end, and the parameters that it has not."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    there = client.get_run(run_id).data.params if parameters else {}
    for key, value in parameters.items():
        if key not in there:
            client.log_param(run_id, key, value)
    client.set_terminated(run_id, status, ended_ms)


def delete_run(uri: str, run_id: str) -> None:
    """Move a run to MLflow's bin."""
    from mlflow import MlflowClient

    MlflowClient(tracking_uri=uri).delete_run(run_id)


def read_metrics(uri: str, run_id: str) -> dict[str, list[tuple[int, int, float]]]:
    """All metrics of a run: name → (step, milliseconds, value)."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    names = client.get_run(run_id).data.metrics
    return {name: [(m.step, m.timestamp, m.value) for m in client.get_metric_history(run_id, name)] for name in names}


ACTS = {act.__name__: act for act in (create_store, create_run, finish_run, delete_run, read_metrics)}


def main() -> int:
    """Do one act; the result is the last line printed."""
    act, arguments = sys.argv[1], json.loads(sys.argv[2])
    try:
        result: Any = ACTS[act](**arguments)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "mlflow":
            return NOT_INSTALLED
        raise
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
