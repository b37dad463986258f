"""Blob storage: signed addresses, whole blobs and blocks, ranges, lists."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from tests.wire.faults import blob_error
from tests.wire.http import Call, Reply
from tests.wire.state import Blob

if TYPE_CHECKING:
    from tests.wire.server import WireServer

_TIME = "%Y-%m-%dT%H:%M:%SZ"
_XML = {"Content-Type": "application/xml"}


def _refuse(status: int, code: str) -> Reply:
    return Reply(status, blob_error(code), {"x-ms-error-code": code, "x-ms-version": "2026-02-06", **_XML})


class BlobService:
    """The storage account of a workspace."""

    account = "acct"

    def __init__(self, wire: WireServer) -> None:
        """With a key of its own for signatures; `data_role` says whether tokens may read blobs."""
        self._wire = wire
        self.data_role = True
        self._key = secrets.token_bytes(32)

    def forget_signatures(self) -> None:
        """No signature made before is good any more."""
        self._key = secrets.token_bytes(32)

    # signed addresses

    def sas(self, scope: str, permissions: str, seconds: float | None = None) -> str:
        """A signature's query, for a blob (`container/path`), a container, or all (``)."""
        now = self._wire.now
        end = now + timedelta(seconds=self._wire.sas_seconds if seconds is None else seconds)
        kind = "b" if "/" in scope else "c" if scope else "a"
        fields = {
            "sv": "2019-07-07",
            "sr": kind,
            "st": (now - timedelta(minutes=10)).strftime(_TIME),
            "se": end.strftime(_TIME),
            "sp": permissions,
        }
        return urlencode({**fields, "sig": self._sign(scope, fields)})

    def _sign(self, scope: str, fields: dict[str, str]) -> str:
        text = "\n".join((scope, *(fields.get(key, "") for key in ("se", "sp", "sr"))))
        return base64.b64encode(hmac.new(self._key, text.encode(), hashlib.sha256).digest()).decode()

    def address(self, container: str, path: str = "") -> str:
        """The address of a blob or a container, not signed."""
        host = f"https://{self.account}.blob.{self._wire.storage_endpoint}"
        return f"{host}/{container}" + (f"/{quote(path)}" if path else "")

    def signed(self, container: str, path: str, permissions: str = "r") -> str:
        """A blob's address that needs no token."""
        return f"{self.address(container, path)}?{self.sas(f'{container}/{path}', permissions)}"

    def _allowed(self, call: Call, container: str, path: str) -> Reply | None:
        """Why a signature does not do, as the answer."""
        query = call.query
        if "sig" not in query and call.headers.get("Authorization"):
            if self._wire.tokens.why_not(call.headers["Authorization"]):
                return _refuse(401, "InvalidAuthenticationInfo")
            return None if self.data_role else _refuse(403, "AuthorizationPermissionMismatch")
        kind = query.get("sr", "a")
        scope = {"b": f"{container}/{path}", "c": container, "a": ""}.get(kind, "?")
        good = self._sign(scope, {key: query.get(key, "") for key in ("se", "sp", "sr")})
        if not hmac.compare_digest(good, query.get("sig", "")):
            return _refuse(403, "AuthenticationFailed")
        end = datetime.strptime(query["se"] + "+0000", _TIME + "%z")
        if end < self._wire.now:
            return _refuse(403, "AuthenticationFailed")
        needed = {"GET": "rl", "HEAD": "r", "PUT": "wca", "DELETE": "d"}.get(call.method, "")
        if not set(needed) & set(query.get("sp", "")):
            return _refuse(403, "AuthorizationPermissionMismatch")
        return None

    # requests

    def answer(self, call: Call) -> Reply:
        """Answer a request to the storage's host."""
        container, _, path = call.path.removeprefix("/blob/").partition("/")
        refused = self._allowed(call, container, path)
        if refused is not None:
            return refused
        comp = call.query.get("comp", "")
        if not path:
            return self._container(call, container, comp)
        if call.method == "PUT":
            return self._put(call, container, path, comp)
        blob = self._wire.state.blobs.get((container, path))
        if blob is None:
            return _refuse(404, "BlobNotFound")
        if call.method == "DELETE":
            del self._wire.state.blobs[container, path]
            return Reply(202, None)
        return self._get(call, blob)

    def _headers(self, blob: Blob) -> dict[str, str]:
        shown = {f"x-ms-meta-{key}": value for key, value in blob.metadata.items()}
        return {
            "Accept-Ranges": "bytes",
            "ETag": blob.etag,
            "Last-Modified": blob.modified.strftime("%a, %d %b %Y %H:%M:%S GMT"),
            "Content-Type": blob.content_type,
            "x-ms-blob-type": "BlockBlob",
            "x-ms-server-encrypted": "true",
            "x-ms-version": "2026-02-06",
            "x-ms-creation-time": blob.modified.strftime("%a, %d %b %Y %H:%M:%S GMT"),
            **shown,
        }

    def _get(self, call: Call, blob: Blob) -> Reply:
        headers = self._headers(blob)
        size = len(blob.data)
        if call.method == "HEAD":
            return Reply(200, None, {**headers, "Content-Length": str(size)})
        if call.headers.get("If-Match", blob.etag) not in (blob.etag, "*"):
            return _refuse(412, "ConditionNotMet")
        wanted = call.headers.get("Range") or call.headers.get("x-ms-range") or ""
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted.strip())
        if not found:
            return Reply(200, bytes(blob.data), headers)
        start = int(found[1])
        if start >= size:
            reply = _refuse(416, "InvalidRange")
            reply.headers["Content-Range"] = f"bytes */{size}"
            return reply
        end = min(int(found[2]) if found[2] else size - 1, size - 1)
        headers["Content-Range"] = f"bytes {start}-{end}/{size}"
        return Reply(206, bytes(memoryview(blob.data)[start : end + 1]), headers)

    def _put(self, call: Call, container: str, path: str, comp: str) -> Reply:
        state, key = self._wire.state, (container, path)
        given = {
            name.lower().removeprefix("x-ms-meta-"): value
            for name, value in call.headers.items()
            if name.lower().startswith("x-ms-meta-")
        }
        old = state.blobs.get(key)
        if comp == "metadata":
            if old is None:
                return _refuse(404, "BlobNotFound")
            old.metadata, old.etag = given, state.new_etag()
            return Reply(200, None, self._headers(old))
        if comp == "block":
            state.blocks.setdefault(key, {})[call.query.get("blockid", "")] = call.body
            return Reply(201, None, {"x-ms-version": "2026-02-06"})
        if old is not None and call.headers.get("If-None-Match") == "*":
            return _refuse(409, "BlobAlreadyExists")
        data = call.body
        if comp == "blocklist":
            try:
                names = [part.text or "" for part in ElementTree.fromstring(call.body)]
                data = b"".join(state.blocks.get(key, {})[name] for name in names)
            except (KeyError, ElementTree.ParseError):
                return _refuse(400, "InvalidBlockList")
            state.blocks.pop(key, None)
        sent = call.headers.get("Content-MD5")
        if sent and comp != "blocklist" and sent != _md5(data):
            return _refuse(400, "InvalidBlockList")
        blob = state.put_blob(container, path, data, given)
        blob.content_type = call.headers.get("x-ms-blob-content-type") or blob.content_type
        return Reply(
            201, None, {"ETag": blob.etag, "x-ms-version": "2026-02-06", "x-ms-request-server-encrypted": "true"}
        )

    def _container(self, call: Call, container: str, comp: str) -> Reply:
        state = self._wire.state
        if container not in state.containers:
            return _refuse(404, "ContainerNotFound")
        if call.method != "GET" or comp != "list":
            return Reply(200, None, {"x-ms-version": "2026-02-06", "ETag": '"0x1"'})
        prefix = call.query.get("prefix", "")
        marker = call.query.get("marker", "")
        most = int(call.query.get("maxresults", "5000"))
        delimiter = call.query.get("delimiter", "")
        names = sorted(name for box, name in state.blobs if box == container and name.startswith(prefix))
        entries: list[str] = []
        folders: set[str] = set()
        following = ""
        for name in (name for name in names if name >= marker):
            if len(entries) >= most:
                following = name
                break
            rest = name[len(prefix) :]
            if delimiter and delimiter in rest:
                folder = prefix + rest.split(delimiter)[0] + delimiter
                if folder not in folders:
                    folders.add(folder)
                    entries.append(f"<BlobPrefix><Name>{escape(folder)}</Name></BlobPrefix>")
                continue
            entries.append(self._entry(name, state.blobs[container, name]))
        body = (
            '<?xml version="1.0" encoding="utf-8"?>'
            f'<EnumerationResults ServiceEndpoint="{escape(self.address(""))}" ContainerName="{escape(container)}">'
            f"<Prefix>{escape(prefix)}</Prefix><MaxResults>{most}</MaxResults><Blobs>{''.join(entries)}</Blobs>"
            f"<NextMarker>{escape(following)}</NextMarker></EnumerationResults>"
        )
        return Reply(200, body.encode(), {"x-ms-version": "2026-02-06", **_XML})

    def _entry(self, name: str, blob: Blob) -> str:
        stamp = blob.modified.strftime("%a, %d %b %Y %H:%M:%S GMT")
        return (
            f"<Blob><Name>{escape(name)}</Name><Properties><Creation-Time>{stamp}</Creation-Time>"
            f"<Last-Modified>{stamp}</Last-Modified><Etag>{escape(blob.etag.strip(chr(34)))}</Etag>"
            f"<Content-Length>{len(blob.data)}</Content-Length><Content-Type>{blob.content_type}</Content-Type>"
            f"<Content-MD5>{_md5(blob.data)}</Content-MD5>"
            "<BlobType>BlockBlob</BlobType><LeaseStatus>unlocked</LeaseStatus><LeaseState>available</LeaseState>"
            "</Properties><OrMetadata /></Blob>"
        )


def _md5(data: bytes) -> str:
    return binascii.b2a_base64(hashlib.md5(data, usedforsecurity=False).digest()).decode().strip()
