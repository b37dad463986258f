"""Files in a workspace's datastores: lists and reads by the signature that the service gives, or by the sign-in itself."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from footplate.azure import errors
from footplate.azure.client import Bytes, Client
from footplate.azure.reading import mapping, text
from footplate.workspace.errors import Conflict, NotAllowed, NotFound, Unexpected, WorkspaceError

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
    """A file in a datastore: its path below the folder that was listed, its bytes, and which content it has (`etag`).

    `md5` is that of the content in base64, where storage tells it: it does not of a file that was written in blocks.
    """

    path: str
    size: int
    name: str = ""
    """Its whole path in the datastore's container."""
    etag: str = ""
    md5: str = ""


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
        """The files below an `azureml://` address of a folder, or the one file that it is of. Raises NotFound, NotAllowed."""
        datastore, path = split(uri)
        whole = path.strip("/")
        folder, _, name = whole.rpartition("/")
        listed = await self._listed(datastore, f"{whole}/", f"{whole}/", uri)
        if not listed and name and not uri.endswith("/"):
            start = f"{folder}/" if folder else ""
            return [file for file in await self._listed(datastore, whole, start, uri) if file.path == name]
        # Where folders are real, each is listed too, as an empty file.
        folders = _folders(file.name for file in listed)
        return [
            file
            for file in listed
            if file.path and not file.name.endswith("/") and (file.size or file.name not in folders)
        ]

    async def _listed(self, datastore: str, prefix: str, below: str, uri: str) -> list[File]:
        found, marker = [], ""
        for _ in range(_MOST_PAGES):
            query = {"restype": "container", "comp": "list", "prefix": prefix, **({"marker": marker} if marker else {})}
            answer = await self._ask(datastore, "", urlencode(query), uri)
            listed, marker = _read_list(answer.body, below)
            found += listed
            if not marker:
                return found
        raise Unexpected(f"{uri} holds more files than footplate lists.", "Look at it in the studio.")

    async def piece(self, uri: str, file: File, start: int, size: int) -> bytes:
        """So many bytes of a file that was listed, from `start`. Raises Conflict where it has another content by now."""
        headers = {"Range": f"bytes={start}-{start + size - 1}", **({"If-Match": file.etag} if file.etag else {})}
        answer = await self._ask(split(uri)[0], quote(file.name), "", f"{file.path} of {uri}", headers)
        data = answer.body[start : start + size] if answer.status == 200 else answer.body
        if len(data) != size:
            raise Unexpected(f"Of {file.path} came {len(data)} bytes where {size} were due.", "Try again.")
        return data

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
        if answer.status == 412:
            raise Conflict(f"{uri} was changed while it was read.", "Try again.")
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
            try:
                answer = await self._client.post(f"{path}/listSecrets", _VERSION, f"the secret of {what}", asked)
            except NotAllowed:  # who may not have the secret may still have a data role of his own
                answer = None
            if signature := text(mapping(answer).get("sasToken")).lstrip("?"):
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


def _folders(names: Iterable[str]) -> set[str]:
    """Every folder above these names."""
    found: set[str] = set()
    for name in names:
        folder = name.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


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
            etag = (blob.findtext("Properties/Etag") or "").strip('"')
            quoted = f'"{etag}"' if etag else ""
            md5 = (blob.findtext("Properties/Content-MD5") or "").strip()
            found.append(File(name.removeprefix(prefix), int(size) if size.isdecimal() else 0, name, quoted, md5))
    return found, root.findtext("NextMarker") or ""
