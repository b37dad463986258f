"""Deployments of the local workspace: made, changed, scaled and deleted in the store; the gateway follows that."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from footplate.local import deployment_folders, layout, model_files, server_log
from footplate.local.deployment_spec import Spec, read_spec
from footplate.local.endpoint_rows import has_gateway, remove_deployment
from footplate.local.endpoint_view import deployment, deployment_row, endpoint_row, find_deployment
from footplate.local.gateway_start import endpoint_lock, tell_gateway
from footplate.local.models import Models
from footplate.local.store import Store, now
from footplate.workspace.errors import Conflict, Invalid, NotFound, QuotaExceeded
from footplate.workspace.names import check_name
from footplate.workspace.serving import Deployment, Model

if TYPE_CHECKING:
    from footplate.jobfile import JobFile
    from footplate.local.deployment_file import InlineModel

_DELETE_SECONDS = 15.0
_LOGS = {"inference-server": "server.log", "storage-initializer": deployment_folders.LOG}
MOST_INSTANCES = max(4, os.cpu_count() or 1)
"""Of one deployment: each is a process that has the model in memory, and wants a core."""


class Deployments:
    """All methods are blocking. `start` starts an endpoint's gateway where none runs; its caller holds the endpoint lock."""

    def __init__(self, store: Store, start: Callable[[str], None]) -> None:
        self._store = store
        self._models = Models(store)
        self._start = start

    def deploy(self, endpoint: str, name: str, model: str, traffic: bool) -> Deployment:
        """As `Workspace.deploy`: one that is there with the same model is left as it is, or tried again where it failed."""
        check_name("deployment", name)
        found = self._models.model(model)
        with endpoint_lock(self._store.home):
            row = self._row(endpoint, name)
            if row is not None and row["model"] != found.reference:
                raise Conflict(
                    f"Endpoint {endpoint!r} already has a deployment {name!r}, with model {row['model']}.",
                    "Delete it, or use another name.",
                )
            if row is None:
                self._make(endpoint, name, found, Spec(), None, 1, traffic)
            elif row["state"] == "Failed":
                spec = read_spec(row["spec"])
                own = self._folder(endpoint, name) / spec.code if spec.source else None
                self._change(row, found, spec, own, row["instances"])
            self._start(endpoint)
        return self._read(endpoint, name)

    def deploy_from(self, file: JobFile, endpoint: str | None, name: str | None, traffic: bool) -> Deployment:
        """As `Workspace.deploy_from`: the same file twice changes nothing, another one takes the place when it serves."""
        from footplate.local.deployment_file import read_deployment  # reads YAML, which few calls need

        wanted = read_deployment(file, endpoint, name)
        check_name("endpoint", wanted.endpoint)
        check_name("deployment", wanted.name)
        with self._store.read() as db:
            endpoint_row(db, wanted.endpoint)
        instances, spec = (
            wanted.instances,
            replace(
                wanted.spec, source=str(wanted.code), digest=deployment_folders.digest(wanted.code, self._store.home)
            ),
        )
        if instances > MOST_INSTANCES:
            note = f"{instances} instances are asked for, {MOST_INSTANCES} run here"
            instances, spec = MOST_INSTANCES, replace(spec, notes=(*spec.notes, note))
        model, note = self._model(wanted.model, f"{wanted.endpoint}-{wanted.name}")
        if note:
            spec = replace(spec, notes=(*spec.notes, note))
        with endpoint_lock(self._store.home):
            row = self._row(wanted.endpoint, wanted.name)
            if row is None:
                self._make(wanted.endpoint, wanted.name, model, spec, wanted.code, instances, traffic)
            elif row["state"] == "Failed" or self._differs(row, model, spec):
                self._change(row, model, spec, wanted.code, instances)
            elif row["instances"] != instances:
                self._set_instances(wanted.endpoint, wanted.name, instances)
            self._start(wanted.endpoint)
        return self._read(wanted.endpoint, wanted.name)

    def scale(self, endpoint: str, name: str, instances: int) -> Deployment:
        """As `Workspace.scale`: more are started, or so many end after their requests."""
        if isinstance(instances, bool) or not isinstance(instances, int) or instances < 1:
            raise Invalid(f"A deployment cannot have {instances!r} instances.", "Give a whole number from 1.")
        if instances > MOST_INSTANCES:
            raise QuotaExceeded(
                f"{instances} instances are more than this machine runs of a deployment: {MOST_INSTANCES}.",
                f"It has {os.cpu_count()} cores; ask for fewer.",
            )
        with endpoint_lock(self._store.home):
            with self._store.read() as db:
                row = deployment_row(db, endpoint, name)
            _refuse_deleting(row)
            self._set_instances(endpoint, name, instances)
        self.tell(endpoint)
        return self._read(endpoint, name)

    def delete(self, endpoint: str, name: str) -> None:
        """As `Workspace.delete_deployment`: its requests are finished first, so that it may go on for a while."""
        with endpoint_lock(self._store.home):
            with self._store.write() as db:
                row = deployment_row(db, endpoint, name)
                parent = endpoint_row(db, endpoint)
                traffic, mirror = json.loads(parent["traffic"]), json.loads(parent["mirror"])
                if share := traffic.pop(name, 0):
                    raise Conflict(
                        f"Deployment {name!r} has {share} % of the traffic of endpoint {endpoint!r}.",
                        "Shift its traffic to another deployment first.",
                    )
                mirror.pop(name, None)
                db.execute(
                    "UPDATE endpoint SET traffic = ?, mirror = ? WHERE name = ?",
                    (json.dumps(traffic), json.dumps(mirror), endpoint),
                )
                db.execute(
                    "UPDATE deployment SET state = 'Deleting' WHERE endpoint = ? AND name = ?",
                    (endpoint, row["name"]),
                )
            if not has_gateway(parent):
                remove_deployment(self._store, endpoint, name)
        self.tell(endpoint)
        deadline = time.monotonic() + _DELETE_SECONDS
        while self._row_is_there(endpoint, name) and time.monotonic() < deadline:
            time.sleep(0.02)

    def log(self, endpoint: str, name: str, tail: int, container: str) -> str:
        """The last lines of one of a deployment's logs; empty before it says anything. Raises NotFound, Invalid."""
        with self._store.read() as db:
            deployment_row(db, endpoint, name)
        if container not in _LOGS:
            raise Invalid(f"A deployment has no container {container!r}.", f"It has {' and '.join(_LOGS)}.")
        return server_log.tail(self._folder(endpoint, name) / _LOGS[container], tail)

    def complete(self, endpoint: str) -> None:
        """Link the models of deployments that an older footplate made, which had no folder for them. Raises OSError."""
        with self._store.read() as db:
            rows = db.execute("SELECT * FROM deployment WHERE endpoint = ?", (endpoint,)).fetchall()
        for row in rows:
            folder, spec = self._folder(endpoint, row["name"]), read_spec(row["spec"])
            if (folder / spec.code).is_dir() and not (folder / spec.model).exists():
                deployment_folders.place_model(folder, spec, self._placed(self._models.model(row["model"])))

    def tell(self, endpoint: str) -> None:
        """Have the gateway follow the store now, where one runs."""
        with self._store.read() as db:
            row = db.execute("SELECT * FROM endpoint WHERE name = ?", (endpoint,)).fetchone()
        if row is not None and has_gateway(row):
            tell_gateway(self._store.home, endpoint, row["port"])

    def _make(
        self,
        endpoint: str,
        name: str,
        model: Model | None,
        spec: Spec,
        code: Path | None,
        instances: int,
        traffic: bool,
    ) -> None:
        """A new deployment; the endpoint's first takes all traffic, where that is wanted."""
        self._place(endpoint, name, model, spec, code)
        with self._store.write() as db:
            self._require_model(db, model)
            others = db.execute("SELECT count(*) FROM deployment WHERE endpoint = ?", (endpoint,)).fetchone()[0]
            db.execute(
                "INSERT INTO deployment (endpoint, name, model, state, created, instances, spec)"
                " VALUES (?, ?, ?, 'Creating', ?, ?, ?)",
                (endpoint, name, model.reference if model else "", now(), instances, spec.text()),
            )
            if traffic and others == 0:
                db.execute("UPDATE endpoint SET traffic = ? WHERE name = ?", (json.dumps({name: 100}), endpoint))

    def _change(self, row: sqlite3.Row, model: Model | None, spec: Spec, code: Path | None, instances: int) -> None:
        """A new revision: at once where nothing serves, else in the present one's place as soon as it serves."""
        endpoint, name = row["endpoint"], row["name"]
        pending = [read_spec(json.loads(row["next"])["spec"])] if row["next"] else []
        last = max(one.revision for one in (read_spec(row["spec"]), *pending))
        spec = replace(spec, revision=last + 1)
        self._place(endpoint, name, model, spec, code)
        reference = model.reference if model else ""
        with self._store.write() as db:
            self._require_model(db, model)
            if row["state"] in ("Failed", "Creating") and row["server_pid"] is None:
                db.execute(
                    "UPDATE deployment SET model = ?, spec = ?, next = '', instances = ?, state = 'Creating', error = '',"
                    " note = '' WHERE endpoint = ? AND name = ?",
                    (reference, spec.text(), instances, endpoint, name),
                )
            else:
                following = json.dumps({"model": reference, "spec": spec.text()})
                db.execute(
                    "UPDATE deployment SET next = ?, instances = ?, state = 'Updating', error = ''"
                    " WHERE endpoint = ? AND name = ?",
                    (following, instances, endpoint, name),
                )

    def _place(self, endpoint: str, name: str, model: Model | None, spec: Spec, code: Path | None) -> None:
        placed = self._placed(model) if model else None
        deployment_folders.place(self._folder(endpoint, name), spec, code, placed, self._store.home)

    def _placed(self, model: Model) -> tuple[str, Path, str]:
        """A model's reference, its files, and the folder's name that they lie under for a scoring script."""
        with self._store.read() as db:
            row = db.execute(
                "SELECT folder FROM model WHERE name = ? AND version = ?", (model.name, int(model.version))
            ).fetchone()
        files = layout.model_folder(self._store.home, model.name, int(model.version))
        return model.reference, files, row["folder"] if row else ""

    def _require_model(self, db: sqlite3.Connection, model: Model | None) -> None:
        """Raise NotFound for a model that was deleted while its files were being placed."""
        if (
            model is not None
            and not db.execute(
                "SELECT 1 FROM model WHERE name = ? AND version = ?", (model.name, int(model.version))
            ).fetchone()
        ):
            raise NotFound(f"Model {model.reference} was deleted meanwhile.", "Deploy another.")

    def _model(self, wanted: str | InlineModel, default: str) -> tuple[Model | None, str]:
        """The model that a file means, and the note that its path was registered; the same files are not registered twice."""
        if isinstance(wanted, str):
            return (self._models.model(wanted), "") if wanted else (None, "")
        name = wanted.name or default
        versions = [model for model in self._models.list() if model.name == name]
        same = [model for model in versions if self._holds(model, wanted.path)]
        if wanted.version and (taken := [model for model in versions if model.version == wanted.version]):
            if taken[0] not in same:
                raise Conflict(
                    f"Model {name}:{wanted.version} is there already, with other files than {wanted.path}.",
                    "Give another version, or none.",
                )
            return taken[0], ""
        if same and not wanted.version:
            return same[0], ""
        model = self._models.register(name, wanted.path, "registered by a deployment")
        return model, f"the model was registered as {model.reference}"

    def _holds(self, model: Model, path: Path) -> bool:
        """Whether a version has the files of a path, and under the name that a scoring script finds them by."""
        _, files, name = self._placed(model)
        if path.is_file():
            there = list(model_files.files_in(files))
            return name == "" and there == [Path(path.name)] and model_files.same_content(path, files / path.name)
        return name == path.name and model_files.same_files(path, files)

    def _differs(self, row: sqlite3.Row, model: Model | None, spec: Spec) -> bool:
        """Whether another revision is wanted than the one that serves, or is about to."""
        present = json.loads(row["next"]) if row["next"] else {"model": row["model"], "spec": row["spec"]}
        there = read_spec(present["spec"])
        alike = replace(spec, revision=there.revision, notes=there.notes) == there
        return not alike or present["model"] != (model.reference if model else "")

    def _set_instances(self, endpoint: str, name: str, instances: int) -> None:
        with self._store.write() as db:
            db.execute(
                "UPDATE deployment SET instances = ? WHERE endpoint = ? AND name = ?", (instances, endpoint, name)
            )

    def _row(self, endpoint: str, name: str) -> sqlite3.Row | None:
        with self._store.read() as db:
            endpoint_row(db, endpoint)
            row = find_deployment(db, endpoint, name)
        if row is not None:
            _refuse_deleting(row)
        elif (leftover := self._folder(endpoint, name)).exists():
            shutil.rmtree(leftover, ignore_errors=True)  # of a deployment that was deleted while its log was written
        return row

    def _row_is_there(self, endpoint: str, name: str) -> bool:
        with self._store.read() as db:
            return find_deployment(db, endpoint, name) is not None

    def _read(self, endpoint: str, name: str) -> Deployment:
        with self._store.read() as db:
            row, parent = deployment_row(db, endpoint, name), endpoint_row(db, endpoint)
        return deployment(row, has_gateway(parent))

    def _folder(self, endpoint: str, name: str) -> Path:
        return layout.endpoint_folder(self._store.home, endpoint) / name


def _refuse_deleting(row: sqlite3.Row) -> None:
    if row["state"] == "Deleting":
        raise Conflict(f"Deployment {row['name']!r} is being deleted.", "Wait until it is gone.")
