"""What a job's supervisor fetches before the job runs: copies of local data, and files from the web, each downloaded once."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from footplate.local import children, layout
from footplate.workspace.errors import Unexpected, Unreachable

if TYPE_CHECKING:
    from http.client import HTTPResponse

Stop = Callable[[], bool]
Tell = Callable[[str], None]

TIMEOUT_SECONDS = 30.0
"""How long a server may say nothing."""

_CHUNK = 1 << 20
_READ_ONLY = 0o444


def fetch(home: Path, source: str, target: Path, stop: Stop, tell: Tell, note: Tell) -> None:
    """Have what lies at a path or an address lie at `target`, whole or not at all; where it does already, nothing is done.

    `tell` gets a line on how far it is, `note` one that is to be known of the job from then on. Raises children.Stopped,
    Unreachable, Unexpected.
    """
    if target.exists():
        return
    new = target.with_name(f".{secrets.token_hex(8)}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if "://" in source:
            _link(download(home, source, stop, tell, note), new)
        else:
            tell(f"copying {target.name}")
            _copy(Path(source), new, stop)
        new.rename(target)
    except OSError as error:
        raise Unexpected(
            f"The input {without_query(source)} could not be fetched to {target}: {_reason(error)}.",
            "Free space or mend its permissions, then launch again.",
            repr(error),
        ) from error
    finally:
        if new.is_dir():
            shutil.rmtree(new, ignore_errors=True)
        else:
            new.unlink(missing_ok=True)


def without_query(address: str) -> str:
    """An address without its query, in which keys stand."""
    return address.partition("?")[0]


def _copy(source: Path, target: Path, stop: Stop) -> None:
    def one(here: str, there: str) -> str:
        if stop():
            raise children.Stopped
        return str(shutil.copy2(here, there))

    if source.is_dir():
        shutil.copytree(source, target, copy_function=one)
    else:
        one(str(source), str(target))


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)  # read-only, as the next job gets it too
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)


def _reason(error: OSError) -> str:
    """What went wrong; copytree gathers (from, to, why) of every file into one error."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list) and error.args[0]:
        return str(error.args[0][0][-1])
    return error.strerror or str(error)


@dataclass(frozen=True)
class _Kept:
    """What is written down of a file that was downloaded: by size and time it is known to be the same, else by its hash."""

    address: str
    size: int
    changed_ns: int
    sha256: str
    etag: str
    last_modified: str


def download(home: Path, address: str, stop: Stop, tell: Tell, note: Tell) -> Path:
    """The file at an address, from the cache while the server says that it is the same, or cannot say: that is noted.

    A new one is checked against the length and the MD5 that the server gives. Raises children.Stopped, and, with the address but
    not its query, Unreachable, Unexpected, OSError.
    """
    folder = layout.download_folder(home, hashlib.sha256(address.encode()).hexdigest()[:32])
    with children.locked(folder / ".lock", stop):
        os.utime(folder / ".lock")  # when it was used last: `footplate clean` looks at it
        content, record = folder / "content", folder / "record.json"
        kept = _kept(content, record)
        response = _ask(address, kept, note)
        if response is None:
            return content
        new = folder / ".content.new"
        with response:
            size, digest = _save(response, address, new, stop, tell)
        new.chmod(_READ_ONLY)
        record.unlink(missing_ok=True)
        new.replace(content)
        headers = response.headers
        written = _Kept(
            without_query(address),
            size,
            content.stat().st_mtime_ns,
            digest,
            headers.get("ETag") or "",
            headers.get("Last-Modified") or "",
        )
        record.with_suffix(".new").write_text(json.dumps(asdict(written)), encoding="utf-8")
        record.with_suffix(".new").replace(record)
        return content


def _kept(content: Path, record: Path) -> _Kept | None:
    """The record of a file that is still what was downloaded; None where it is not, or is not there."""
    try:
        found: Mapping[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        kept = _Kept(**found)
        status = content.stat()
        if (status.st_size, status.st_mtime_ns) == (kept.size, kept.changed_ns):
            return kept
        with content.open("rb") as file:
            same = hashlib.file_digest(file, "sha256").hexdigest() == kept.sha256
    except (OSError, ValueError, TypeError):
        return None
    return kept if same else None


def _ask(address: str, kept: _Kept | None, note: Tell) -> HTTPResponse | None:
    """The server's answer with a new file; None where the kept one will do: it is not changed, or nobody can say."""
    import urllib.error
    import urllib.request  # with TLS, which few jobs need

    request = urllib.request.Request(address)
    if kept is not None and kept.etag:
        request.add_header("If-None-Match", kept.etag)
    elif kept is not None and kept.last_modified:
        request.add_header("If-Modified-Since", kept.last_modified)
    where = without_query(address)
    try:
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 304:
            return None
        if kept is not None and error.code >= 500:
            note(
                f"{where} was not asked whether it changed, the server answered {error.code}: the copy of an earlier job is used"
            )
            return None
        raise Unexpected(
            f"The input {where} could not be downloaded: the server answered {error.code} {error.reason}.",
            "Check the address (a signed one may have expired), then launch again.",
            repr(error),
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        if kept is not None:
            note(f"{where} was not asked whether it changed, {reason}: the copy of an earlier job is used")
            return None
        raise Unreachable(
            f"The input {where} could not be downloaded: {reason}.",
            "Check the address and the network, then launch again.",
            repr(error),
        ) from error
    return answer


def _save(response: HTTPResponse, address: str, new: Path, stop: Stop, tell: Tell) -> tuple[int, str]:
    """Write the body down and check it; gives its size and SHA-256."""
    where = without_query(address)
    length = response.headers.get("Content-Length")
    total = int(length) if length and length.isdecimal() else None
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    new.unlink(missing_ok=True)
    with new.open("wb") as file:
        while True:
            try:
                chunk = response.read(_CHUNK)
            except Exception as error:  # http.client has its own errors for a cut body, besides the socket's
                raise Unreachable(
                    f"The input {where} broke off after {size:,} bytes.", "Launch again.", repr(error)
                ) from error
            if not chunk:
                break
            if stop():
                raise children.Stopped
            file.write(chunk)
            sha256.update(chunk)
            md5.update(chunk)
            size += len(chunk)
            of = f" of {total / 1e6:.1f}" if total is not None else ""
            tell(f"downloading {where.rpartition('/')[2]}: {size / 1e6:.1f}{of} MB")
    if total is not None and size != total:
        raise Unreachable(f"The input {where} broke off after {size:,} of {total:,} bytes.", "Launch again.")
    wanted = response.headers.get("Content-MD5")
    if wanted and base64.b64encode(md5.digest()).decode() != wanted.strip():
        raise Unexpected(
            f"The input {where} came damaged: its MD5 is not the one that the server gives.", "Launch again."
        )
    return size, sha256.hexdigest()
