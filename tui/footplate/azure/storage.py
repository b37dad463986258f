"""Files in a workspace's datastores: lists and reads by the signature that the service gives, or by the sign-in itself."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from footplate.azure import errors
from footplate.azure.client import Bytes, Client
from footplate.azure.reading import mapping, text
from footplate.workspace.errors import NotAllowed, NotFound, Unexpected, WorkspaceError

_VERSION = "2024-10-01-preview"
_STORAGE_VERSION = "2023-11-03"
_STORAGE_SCOPE = "https://storage.azure.com/.default"
_SECRET_SECONDS = 3000.0  # of the hour that is asked for
_MARGIN_SECONDS = 60.0
_MOST_PAGES = 40
_DATASTORE = re.compile(r"azureml://(?:.*/)?datastores/([^/]+)/(?:paths/)?(.*)")
_JOB_OUTPUT = re.compile(r"azureml://jobs/([^/]+)/outputs/artifacts/(?:paths/)?(.*)")
_ARTIFACTS = "workspaceartifactstore"
OLD_ADDRESS = frozenset({"AuthenticationFailed", "InvalidAuthenticationInfo"})
"""Storage's codes for a signature or a token that is no longer, or not yet, good."""
_BARRED = {
    "AuthorizationFailure": "The storage account's firewall or private link keeps this machine out of it.",
    "AuthorizationPermissionMismatch": "Your sign-in has no data role on the storage account.",
    "InsufficientAccountPermissions": "Your sign-in has no data role on the storage account.",
    "KeyBasedAuthenticationNotPermitted": "The storage account takes no keys, and your sign-in has no data role on it.",
    "PublicAccessNotPermitted": "The storage account cannot be reached from public networks.",
}
_STEP = "Ask an owner for the role Storage Blob Data Reader on it, or go through the network that it admits."


@dataclass(frozen=True)
class File:
    """A file in a datastore: its path below the folder that was listed, and its bytes."""

    path: str
    size: int


@dataclass(frozen=True)
class _Door:
    """A datastore's container with what opens it: a signature, or headers with a token."""

    address: str
    until: float
    query: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class Storage:
    """The blob datastores of one workspace."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._doors: dict[str, _Door] = {}
        self._lock = asyncio.Lock()

    async def files(self, uri: str) -> Sequence[File]:
        """The files below an `azureml://` address of a folder. Raises NotFound, NotAllowed."""
        datastore, path = split(uri)
        prefix, found, marker = f"{path.strip('/')}/", [], ""
        for _ in range(_MOST_PAGES):
            query = {"restype": "container", "comp": "list", "prefix": prefix, **({"marker": marker} if marker else {})}
            answer = await self._ask(datastore, "", urlencode(query), uri)
            listed, marker = _read_list(answer.body, prefix)
            found += listed
            if not marker:
                break
        return found

    async def read(self, uri: str, most: int) -> bytes:
        """The first bytes of a file, at most so many. Raises NotFound, NotAllowed."""
        datastore, path = split(uri)
        answer = await self._ask(datastore, quote(path), "", uri, {"Range": f"bytes=0-{most - 1}"})
        return answer.body[:most]

    async def _ask(
        self, datastore: str, path: str, query: str, uri: str, headers: Mapping[str, str] | None = None
    ) -> Bytes:
        answer = Bytes(0, {}, b"")
        for attempt in range(2):
            door = await self._door(datastore, new=attempt > 0)
            parts = "&".join(part for part in (query, door.query) if part)
            sent = {"x-ms-version": _STORAGE_VERSION, "Accept-Encoding": "identity", **door.headers, **(headers or {})}
            answer = await self._client.download(f"{door.address}/{path}?{parts}".rstrip("?/"), sent)
            if answer.status in (200, 206):
                return answer
            if answer.status == 416:  # an empty file
                return Bytes(206, answer.headers, b"")
            if answer.status not in (401, 403) or storage_code(answer) not in OLD_ADDRESS:
                break
        raise refusal(answer, uri)

    async def _door(self, name: str, *, new: bool) -> _Door:
        async with self._lock:
            known = self._doors.get(name)
            if known is None or new or known.until < time.monotonic():
                known = self._doors[name] = await self._open(name)
            return known

    async def _open(self, name: str) -> _Door:
        what, path = f"datastore {name!r}", f"/datastores/{quote(name, safe='')}"
        properties = mapping(mapping(await self._client.get(path, _VERSION, what)).get("properties"))
        account, container = text(properties.get("accountName")), text(properties.get("containerName"))
        if text(properties.get("datastoreType")) != "AzureBlob" or not account or not container:
            raise NotFound(
                f"Datastore {name!r} is no blob store, and footplate reads no other.", "Look at it in the studio."
            )
        ending = text(properties.get("endpoint")) or self._client.cloud.storage_endpoint
        address = f"https://{account}.blob.{ending}/{quote(container)}"
        until = time.monotonic() + _SECRET_SECONDS
        if text(mapping(properties.get("credentials")).get("credentialsType")) != "None":
            asked = {"expirableSecret": True, "expireAfterHours": 1}
            secret = mapping(await self._client.post(f"{path}/listSecrets", _VERSION, f"the secret of {what}", asked))
            if signature := text(secret.get("sasToken")).lstrip("?"):
                return _Door(address, until, signature)
        token = await asyncio.to_thread(self._client.credential.get_token_info, _STORAGE_SCOPE)
        until = min(until, time.monotonic() + token.expires_on - time.time() - _MARGIN_SECONDS)
        return _Door(address, until, headers={"Authorization": f"Bearer {token.token}"})


def split(uri: str) -> tuple[str, str]:
    """Datastore and path of an `azureml://` address. Raises NotFound for another address."""
    if found := _JOB_OUTPUT.fullmatch(uri):
        return _ARTIFACTS, f"ExperimentRun/dcid.{found[1]}/{found[2]}".rstrip("/")
    if found := _DATASTORE.fullmatch(uri):
        return found[1], found[2].rstrip("/")
    raise NotFound(f"footplate cannot tell in which datastore {uri!r} lies.", "Look at it in the studio.")


def storage_code(answer: Bytes) -> str:
    """Storage's own code of a refusal, from its header or its XML."""
    given = {name.lower(): value for name, value in answer.headers.items()}
    if code := given.get("x-ms-error-code"):
        return code
    return next(iter(errors.read_fault(answer.body).codes), "") if answer.status >= 400 else ""


def refusal(answer: Bytes, what: str) -> WorkspaceError:
    """What a refusal by storage means: a firewall and a missing role are told apart from an old address."""
    code = storage_code(answer)
    raw = f"HTTP {answer.status} {code}".rstrip()
    if answer.status == 404:
        return NotFound(f"Storage has no {what}.", "It may not be written yet.", raw)
    if answer.status not in (401, 403):
        return errors.from_answer(answer.status, answer.headers, answer.body, what)
    if code in OLD_ADDRESS:
        return Unexpected(
            f"Storage takes a new address of {what} for an old one.",
            "Look at this machine's clock, then look again.",
            raw,
        )
    return NotAllowed(
        f"{what[:1].upper()}{what[1:]} may not be read. {_BARRED.get(code, 'Storage refuses it.')}", _STEP, raw
    )


def _read_list(body: bytes, prefix: str) -> tuple[list[File], str]:
    """The files of a page, and where the next begins."""
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:  # storage sends none, and a parser may be made to swell by one
        raise Unexpected("Storage answered with a list of files that cannot be read.", "Try again.")
    try:
        root = ElementTree.fromstring(body.removeprefix(b"\xef\xbb\xbf"))
    except ElementTree.ParseError as error:
        raise Unexpected(
            "Storage answered with a list of files that cannot be read.", "Try again.", str(error)
        ) from error
    found = []
    for blob in root.iter("Blob"):
        name = blob.findtext("Name") or ""
        size = blob.findtext("Properties/Content-Length") or "0"
        if name.startswith(prefix):
            found.append(File(name.removeprefix(prefix), int(size) if size.isdecimal() else 0))
    return found, root.findtext("NextMarker") or ""
