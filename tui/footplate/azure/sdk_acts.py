"""What the child process does with Azure's SDK: one method an act, plain JSON in and out."""

from __future__ import annotations

import io
import re
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from azure.ai.ml import MLClient, load_job, load_online_deployment, load_online_endpoint
from azure.ai.ml import entities as ml
from azure.ai.ml._utils import _asset_utils
from azure.core.credentials import AccessToken, AccessTokenInfo, TokenRequestOptions
from azure.core.exceptions import ResourceNotFoundError
from azure.core.pipeline.policies import RetryPolicy

from footplate.azure.errors import retry_after
from footplate.azure.transport import LONGEST_WAIT_SECONDS

if TYPE_CHECKING:
    from footplate.azure.sdk import Pipe

_CUSTOM = "footplate-custom"
_PORTAL = "https://portal.azure.com"
_ASK_ALWAYS_SECONDS = 299
"""azure-core asks anew for a token with less than 300 seconds left."""
_BAR_TEXT = re.compile(r"\x1b\[\d*m(?:Uploading )?| \([^()]*MBs?\)")


class ParentCredential:
    """A TokenCredential that has the console's tokens: it asks for each request, so that a new sign-in counts at once."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def get_token(self, *scopes: str, claims: str | None = None, **_: Any) -> AccessToken:
        """A token for one scope. Raises WorkspaceError."""
        given = self._pipe.token(scopes[0], claims)
        return AccessToken(given["value"], min(given["expires_on"], int(time.time()) + _ASK_ALWAYS_SECONDS))

    def get_token_info(self, *scopes: str, options: TokenRequestOptions | None = None) -> AccessTokenInfo:
        """A token for one scope. Raises WorkspaceError."""
        given = self._pipe.token(scopes[0], (options or {}).get("claims"))
        return AccessTokenInfo(given["value"], min(given["expires_on"], int(time.time()) + _ASK_ALWAYS_SECONDS))


class Acts:
    """The writes of one workspace."""

    def __init__(self, opened: Mapping[str, Any], pipe: Pipe) -> None:
        """A client as `opened` says: the place's three names, the cloud, and the addresses of a custom one."""
        warnings.simplefilter("ignore")
        _never_wait_long()
        _show_progress(pipe)
        metadata = opened["metadata"]
        cloud: dict[str, Any] = {"cloud": opened["cloud"]}
        if metadata:
            cloud = {"cloud": _CUSTOM, "cloud_metadata": {"azure_portal": _PORTAL, **metadata}}
        self._client = MLClient(
            ParentCredential(pipe),
            opened["subscription_id"],
            opened["resource_group"],
            opened["workspace_name"],
            # Without it a failed upload is not told, and waited for without end.
            show_progress=True,
            enable_telemetry=False,
            retry_total=2,
            retry_backoff_factor=0.2,
            **cloud,
        )

    def submit(self, text: str, origin: str, name: str | None) -> str:
        """Start the job of a job file's text, whose relative paths lie beside the path `origin`; gives its name."""
        changes = [{"name": name}] if name else []
        job = load_job(io.StringIO(text), relative_origin=origin, params_override=changes)
        return str(self._client.jobs.create_or_update(job).name)

    def create_cluster(self, **given: Any) -> None:
        """Ask for a cluster; `given` are the names of azure-ai-ml's AmlCompute."""
        self._client.compute.begin_create_or_update(ml.AmlCompute(**given))

    def register(self, name: str, path: str, description: str) -> str:
        """Register a folder of this machine or an `azureml://` address as a model's next version; gives the version."""
        model = ml.Model(name=name, path=path, type="custom_model", description=description or None)
        return str(self._client.models.create_or_update(model).version)

    def create_endpoint(self, name: str, description: str) -> None:
        """Ask for a managed endpoint with keys."""
        endpoint = ml.ManagedOnlineEndpoint(name=name, auth_mode="key", description=description or None)
        self._client.online_endpoints.begin_create_or_update(endpoint)

    def create_endpoint_from(self, text: str, origin: str, name: str | None, said: list[str]) -> str:
        """Ask for the endpoint of a file's text, or for what it says of one that is there; gives its name.

        `said` are the file's own members: of an endpoint that is there, what it does not say stays as it is.
        """
        changes = [{"name": name}] if name else []
        endpoint = load_online_endpoint(io.StringIO(text), relative_origin=origin, params_override=changes)
        try:
            there = self._client.online_endpoints.get(endpoint.name)
        except ResourceNotFoundError:
            there = None
        if there is not None:
            kept = (
                "auth_mode",
                "description",
                "identity",
                "traffic",
                "mirror_traffic",
                "public_network_access",
                "compute",
            )
            for member in kept:
                if member not in said and hasattr(endpoint, member):
                    setattr(endpoint, member, getattr(there, member, None))
            endpoint.tags = {**(there.tags or {}), **(endpoint.tags or {})}
        self._client.online_endpoints.begin_create_or_update(endpoint)
        return str(endpoint.name)

    def deploy_from(self, text: str, origin: str, changes: dict[str, Any]) -> None:
        """Ask for the deployment of a file's text, with some members changed; its code and model are uploaded first."""
        overrides = [{member: value} for member, value in changes.items()]
        deployment = load_online_deployment(io.StringIO(text), relative_origin=origin, params_override=overrides)
        self._client.online_deployments.begin_create_or_update(deployment)

    def delete_endpoint(self, name: str) -> None:
        """Ask for the end of an endpoint and its deployments."""
        self._client.online_endpoints.begin_delete(name)

    def deploy(
        self,
        endpoint: str,
        name: str,
        model: str,
        code: str,
        image: str,
        packages: dict[str, Any],
        size: str,
    ) -> None:
        """Ask for a managed deployment of a model with scoring code, in an image with packages."""
        deployment = ml.ManagedOnlineDeployment(
            name=name,
            endpoint_name=endpoint,
            model=model if model.startswith("azureml://") else f"azureml:{model}",
            code_configuration=ml.CodeConfiguration(code=code, scoring_script="score.py"),
            environment=ml.Environment(image=image, conda_file=packages),
            instance_type=size,
            instance_count=1,
        )
        self._client.online_deployments.begin_create_or_update(deployment)


def _never_wait_long() -> None:
    """Where Azure asks for a long wait, it is told at once with a countdown, as by the reads."""
    usual = RetryPolicy.is_retry

    def is_retry(self: Any, settings: Any, response: Any) -> bool:
        if retry_after(response.http_response.headers) > LONGEST_WAIT_SECONDS:
            return False
        return bool(usual(self, settings, response))

    RetryPolicy.is_retry = is_retry  # type: ignore[method-assign]


def _show_progress(pipe: Pipe) -> None:
    """Tell the console of uploads, in place of the SDK's bars on stderr."""

    class Bar:
        def __init__(self, msg: str = "", total: int = 0, desc: str = "", **_: Any) -> None:
            self._what = _BAR_TEXT.sub("", msg or desc).strip()
            self._done, self._total = 0, total

        def __enter__(self) -> Bar:
            self._say()
            return self

        def __exit__(self, *_: object) -> None:
            """The act's answer is the end."""

        def update(self, count: int) -> None:
            self._done += count
            self._say()

        def update_to(self, response: Any) -> None:
            self._done = response.context["upload_stream_current"] or self._done
            self._total = response.context["data_stream_total"] or self._total
            self._say()

        def _say(self) -> None:
            pipe.say({"progress": {"what": self._what, "done": self._done, "total": self._total}})

    for name in ("tqdm", "FileUploadProgressBar"):
        setattr(_asset_utils, name, Bar)
