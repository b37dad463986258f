"""The clouds that Azure ML runs in, and the custom one that the settings describe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from footplate.settings import AzureSettings
from footplate.workspace.errors import Invalid


@dataclass(frozen=True)
class Cloud:
    """The addresses of one cloud, without a slash at the end; `storage_endpoint` is a host's ending."""

    name: str
    resource_manager: str
    active_directory: str
    aml_resource_id: str
    storage_endpoint: str
    ca_file: Path | None = None

    @property
    def scope(self) -> str:
        """The scope of tokens for the resource manager, run history and MLflow."""
        return f"{self.resource_manager}/.default"

    @property
    def aml_scope(self) -> str:
        """The scope of tokens for endpoints that take Microsoft Entra tokens."""
        return f"{self.aml_resource_id}/.default"

    @property
    def custom(self) -> bool:
        """Whether the settings describe it; names under `.localhost` are loopback then (RFC 6761)."""
        return self.name == "custom"


_PUBLIC = (
    Cloud(
        "AzureCloud",
        "https://management.azure.com",
        "https://login.microsoftonline.com",
        "https://ml.azure.com",
        "core.windows.net",
    ),
    Cloud(
        "AzureChinaCloud",
        "https://management.chinacloudapi.cn",
        "https://login.chinacloudapi.cn",
        "https://ml.azure.cn",
        "core.chinacloudapi.cn",
    ),
    Cloud(
        "AzureUSGovernment",
        "https://management.usgovcloudapi.net",
        "https://login.microsoftonline.us",
        "https://ml.azure.us",
        "core.usgovcloudapi.net",
    ),
)
CLOUDS = {cloud.name: cloud for cloud in _PUBLIC}
_ADDRESSES = ("resource_manager", "active_directory", "aml_resource_id")


def find(settings: AzureSettings, name: str, base: Path) -> Cloud:
    """The cloud of workspace `name`; `ca_file` is read from the folder `base`. Raises Invalid naming the key at fault."""
    where = f"workspaces.{name}"
    if settings.cloud in CLOUDS:
        for key in (*_ADDRESSES, "storage_endpoint", "ca_file"):
            if getattr(settings, key):
                raise Invalid(
                    f"{where}.{key} is for a custom cloud only, and this one is {settings.cloud}.",
                    f'Take it out, or write cloud = "custom" in [{where}].',
                )
        return CLOUDS[settings.cloud]
    if settings.cloud != "custom":
        raise Invalid(
            f"{where}.cloud is {settings.cloud!r}, which is no cloud.", f"Known: {', '.join(CLOUDS)}, custom."
        )
    return _custom(settings, where, base)


def _custom(settings: AzureSettings, where: str, base: Path) -> Cloud:
    given = {key: getattr(settings, key).rstrip("/") for key in _ADDRESSES}
    if not given["resource_manager"]:
        raise Invalid(f"{where}.resource_manager is missing.", "A custom cloud needs the address of its server.")
    for key, address in given.items():
        if address and (urlsplit(address).scheme != "https" or not urlsplit(address).hostname):
            raise Invalid(
                f"{where}.{key} is {address!r}, which is no https address.",
                "A token is sent over TLS only: write it as https://HOST.",
            )
    ca_file = base / Path(settings.ca_file).expanduser() if settings.ca_file else None
    if ca_file is not None and not ca_file.is_file():
        raise Invalid(
            f"{where}.ca_file names {ca_file}, and there is no such file.", "Name the file with the certificate."
        )
    public = CLOUDS["AzureCloud"]
    return Cloud(
        "custom",
        given["resource_manager"],
        given["active_directory"] or public.active_directory,
        given["aml_resource_id"] or public.aml_resource_id,
        settings.storage_endpoint or public.storage_endpoint,
        ca_file,
    )
