"""Data that comes as a zip or a tar, by path or by https: fetched and unpacked once a node, into the cache folder.

Nothing in an archive is trusted: only plain files and folders below its own top come out, and no more than its size
allows.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import http.client
import io
import lzma
import re
import shutil
import stat
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

import cache
from errors import BadInput

MOST_TIMES = 100
"""How many times its own size an archive may unpack to; pictures hardly shrink."""

ALWAYS_BYTES = 16 * 2**20
"""What any archive may unpack to."""

TRIES = 3
SILENT_SECONDS = 30.0
TELL_SECONDS = 10.0
BLOCK = 1 << 20
Say = Callable[[str], None]


def data_folder(data: str, cache_folder: Path, sha256: str | None, say: Say) -> Path:
    """The folder that `--data` means, unpacked where it is an archive; raises `BadInput`."""
    if re.match(r"https://", data, re.IGNORECASE):
        return unpacked(data, f"{data}\n{sha256}", cache_folder, sha256, say)
    if match := re.match(r"([a-z][a-z0-9+.-]+):/", data, re.IGNORECASE):
        raise BadInput(
            f"--data {shown(data)}: only https: addresses are fetched, not {match[1]}:. Give a path or https:."
        )
    path = Path(data)
    if not path.exists():
        raise BadInput(f"The data folder {path} does not exist. Give --data a folder with train/ and val/ in it.")
    if path.is_dir():
        if sha256:
            raise BadInput("--data_sha256 is the checksum of an archive, and --data is a folder. Leave it out.")
        return path
    if not path.is_file() or not (zipfile.is_zipfile(path) or is_tar(path)):
        raise BadInput(
            f"{path} is a file, and neither a zip nor a tar. Give --data a folder with train/ and val/ in it, or an archive of one."
        )
    status = path.stat()
    key = f"{path.resolve()}\n{status.st_size}\n{status.st_mtime_ns}\n{sha256}"
    return unpacked(data, key, cache_folder, sha256, say)


def shown(data: str) -> str:
    """An address without the signature that may hang on it."""
    return data.partition("?")[0]


def unpacked(data: str, key: str, cache_folder: Path, sha256: str | None, say: Say) -> Path:
    """The folder with train/ and val/ that came out of the archive, now or in an earlier training."""
    place = cache_folder / "data" / hashlib.sha256(key.encode()).hexdigest()[:32]
    with cache.locked(place.with_suffix(".lock"), say, f"the data of {shown(data)}"), ExitStack() as stack:
        if place.is_dir():
            say(f"The data of {shown(data)} is in {place} from before.")
            return top_of(place, data)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.")))
        archive = Path(data)
        if data.lower().startswith("https://"):
            archive = folder / "archive"
            fetch(data, archive, say)
        if sha256 and (digest := digest_of(archive)) != sha256.lower():
            raise BadInput(
                f"{shown(data)} has the SHA-256 {digest}, not {sha256.lower()} as --data_sha256 says. "
                "It was changed or is broken; check where it comes from."
            )
        content = folder / "content"
        try:
            files, size = unpack(archive, content, shown(data))
        except (
            OSError,
            EOFError,
            ValueError,
            tarfile.TarError,
            zipfile.BadZipFile,
            lzma.LZMAError,
            zlib.error,
        ) as fault:
            raise BadInput(
                f"{shown(data)} cannot be unpacked: {fault}. Fetch it again, or unpack it yourself."
            ) from fault
        top_of(content, data)
        content.rename(place)
        say(f"Unpacked {files} files, {size / 1e6:.1f} MB, of {shown(data)} into {place}.")
    return top_of(place, data)


def top_of(folder: Path, data: str) -> Path:
    """The folder with train/ in it: the archive's top, or a folder that is alone there."""
    top = folder
    for _ in range(4):
        if (top / "train").is_dir():
            return top
        inner = [e for e in top.iterdir() if e.is_dir() and not e.name.startswith(".") and e.name != "__MACOSX"]
        if len(inner) != 1:
            break
        top = inner[0]
    raise BadInput(
        f"{shown(data)} has no folder train/ in it. It needs train/ and val/, each with one folder per class."
    )


def digest_of(path: Path) -> str:
    """A file's SHA-256 in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirections to https: addresses alone."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not newurl.lower().startswith("https://"):
            raise BadInput(
                f"{shown(req.full_url)} sends on to {shown(newurl)}, which is not https:. Give another address."
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch(address: str, file: Path, say: Say) -> None:
    """Fetches the address into a file, trying again when the connection breaks; raises `BadInput`."""
    opener = urllib.request.build_opener(_HttpsOnly)
    fault: Exception | None = None
    for number in range(1, TRIES + 1):
        try:
            with opener.open(address, timeout=SILENT_SECONDS) as answer, file.open("wb") as out:
                size = receive(answer, out, address, say)
            say(f"Fetched {shown(address)}: {size / 1e6:.1f} MB, SHA-256 {digest_of(file)}.")
            return
        except urllib.error.HTTPError as error:
            fault = error
            if error.code < 500 and error.code not in (408, 429):
                break
        except (OSError, http.client.HTTPException) as error:  # urllib's URLError is an OSError
            fault = error
        if number < TRIES:
            time.sleep(number)
    reason = getattr(fault, "reason", None) or fault
    raise BadInput(
        f"{shown(address)} could not be fetched ({reason}). Check it from this machine, or fetch it elsewhere and give its path."
    ) from fault


def receive(answer: IO[bytes], out: IO[bytes], address: str, say: Say) -> int:
    """Copies the answer's body, with a line now and then; raises `OSError` when it ends early."""
    length = int(cast(Any, answer).headers.get("Content-Length") or 0)
    free = shutil.disk_usage(Path(out.name).parent).free
    if length > free:
        raise BadInput(
            f"{shown(address)} has {length / 1e9:.1f} GB, and there are {free / 1e9:.1f} free. Give --cache_dir a larger disk."
        )
    size, told = 0, time.monotonic()
    while block := answer.read(BLOCK):
        out.write(block)
        size += len(block)
        if time.monotonic() - told > TELL_SECONDS:
            told = time.monotonic()
            say(f"Fetching {shown(address)}: {size / 1e6:.0f} MB" + (f" of {length / 1e6:.0f}." if length else "."))
    if size < length:
        raise OSError(f"it ended after {size} of {length} bytes")
    return size


class Limited(io.RawIOBase):
    """A stream that raises `BadInput` when more comes out of it than was agreed."""

    def __init__(self, stream: IO[bytes], most: int, name: str) -> None:
        self._stream, self._left, self._most, self._name = stream, most, most, name

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(self._left + 1 if size is None or size < 0 else min(size, self._left + 1))
        self._left -= len(block)
        if self._left < 0:
            raise too_large(self._name, self._most)
        return block


def too_large(name: str, most: int) -> BadInput:
    """The sentence about an archive that unpacks to more than it may."""
    return BadInput(
        f"{name} unpacks to more than {most / 1e6:.0f} MB, {MOST_TIMES} times its size or all that the disk has. "
        "If it is what it should be, unpack it yourself and give the folder."
    )


def is_tar(path: Path) -> bool:
    """Whether the file is a tar, packed or plain; reads no more of it than the first entry."""
    try:
        with opened_tar(path, ALWAYS_BYTES, path.name) as archive:
            return archive.next() is not None
    except (OSError, EOFError, tarfile.TarError, lzma.LZMAError, zlib.error, BadInput):
        return False


def opened_tar(path: Path, most: int, name: str) -> tarfile.TarFile:
    """A tar to read from front to back, at most so many bytes of it."""
    with path.open("rb") as file:
        start = file.read(6)
    kinds: dict[bytes, Callable[[Path], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
    unpacking = next((kind for magic, kind in kinds.items() if start.startswith(magic)), None)
    stream = unpacking(path) if unpacking else path.open("rb")
    return tarfile.open(fileobj=cast(IO[bytes], Limited(stream, most, name)), mode="r|")


def unpack(archive: Path, folder: Path, name: str) -> tuple[int, int]:
    """Unpacks into a new folder; returns the number of files and their bytes. Raises `BadInput`, and what the libraries raise."""
    size = archive.stat().st_size
    most = min(max(ALWAYS_BYTES, MOST_TIMES * size), shutil.disk_usage(folder.parent).free)
    folder.mkdir()
    files, left = 0, most
    for path, stream in (
        zip_files(archive, name, most) if zipfile.is_zipfile(archive) else tar_files(archive, name, most)
    ):
        target = folder / safe(path, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("xb") as out:
                while block := stream.read(BLOCK):
                    left -= len(block)
                    if left < 0:
                        raise too_large(name, most)
                    out.write(block)
        except FileExistsError:
            raise BadInput(f"{name} holds {path!r} twice. Pack it again.") from None
        files += 1
    return files, most - left


def safe(path: str, name: str) -> PurePosixPath:
    """The entry's place below the archive's top; raises `BadInput` where it would lie elsewhere."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\\" in path or "\0" in path:
        raise BadInput(
            f"{name} has an entry that would lie outside its folder, {path!r}. It was not unpacked; distrust it."
        )
    return pure


def zip_files(archive: Path, name: str, most: int) -> Iterator[tuple[str, IO[bytes]]]:
    """A zip's files; raises `BadInput` for what is no plain file or folder."""
    with zipfile.ZipFile(archive) as opened:
        entries = opened.infolist()
        if sum(entry.file_size for entry in entries) > most:
            raise too_large(name, most)
        for entry in entries:
            if entry.is_dir():
                safe(entry.filename, name)
                continue
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG):
                raise BadInput(f"{name} has an entry that is a link or a device, {entry.filename!r}. Pack plain files.")
            if entry.flag_bits & 1:
                raise BadInput(f"{name} is encrypted. Unpack it yourself and give the folder.")
            with opened.open(entry) as stream:
                yield entry.filename, stream


def tar_files(archive: Path, name: str, most: int) -> Iterator[tuple[str, IO[bytes]]]:
    """A tar's files, the same way."""
    with opened_tar(archive, most + ALWAYS_BYTES, name) as opened:  # headers and padding count too
        for entry in opened:
            if entry.isdir():
                if PurePosixPath(entry.name).parts:  # a tar of `.` begins with that very folder
                    safe(entry.name, name)
                continue
            if not entry.isreg():
                raise BadInput(f"{name} has an entry that is a link or a device, {entry.name!r}. Pack plain files.")
            stream = opened.extractfile(entry)
            if stream is not None:
                yield entry.name, stream
