"""Where pictures come from: folders by the million, archives that nobody trusts, and files that cannot be read."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import re
import shutil
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.trainer.starts import TINY, Ranks, azure_places
from tests.wire.certificates import make_certificates

pytestmark = pytest.mark.slow

LISTING = """
import json, os, sys, time
from pathlib import Path
import imagefolder
imagefolder.MANY = 1
root, kept = Path(sys.argv[1]), Path(sys.argv[2])
listed = []
listdir = os.listdir
os.listdir = lambda path: listed.append(path) or listdir(path)
def look():
    listed.clear()
    folder = imagefolder.find_pictures(root, kept)
    names = [folder.train.name(i) for i in range(len(folder.train))]
    assert [str(s.path) for s in folder.train] == [str(root / name) for name in names]
    assert [s.label for s in folder.train] == folder.train.labels()
    return names, len(listed), folder.digest
"""

KEEPS = (
    LISTING
    + """
names, looked, digest = look()
assert names == ["train/a/B.JPEG", "train/a/b.jpg", "train/a/c.png", "train/a/deep/d.webp", "train/b/\\udcff.jpg"], names
assert looked == 7, looked
assert look() == (names, 0, digest)
(root / "train/b/new.jpg").touch()
os.utime(root / "train/b", (9, 9))
added = look()
assert added[0] == [*names[:4], "train/b/new.jpg", names[4]] and added[1] == 7 and added[2] != digest
folder = imagefolder.find_pictures(root, kept)
fewer = folder.train.without({0, 4}).without({0})
assert [fewer.name(i) for i in range(len(fewer))] == names[2:]
assert fewer.labels() == [0, 0, 1]
for file in (kept / "listings").iterdir():
    file.write_bytes(file.read_bytes()[:-1])
assert look() == added
print("held")
"""
)


def test_a_listing_is_kept_until_a_folder_changes(ranks: Ranks, tmp_path: Path) -> None:
    root = tmp_path / "birds"
    names = ["train/a/c.png", "train/a/b.jpg", "train/a/B.JPEG", "train/a/.hidden.jpg", "train/a/notes.txt"]
    names += ["train/a/deep/d.webp", "train/b/\udcff.jpg", "val/a/1.jpg", "val/b/1.jpg"]
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "train" / "a" / "deep" / "loop").symlink_to(root / "train" / "a")
    for folder, _, _ in os.walk(root):
        os.utime(folder, (7, 7))  # long enough ago to be believed
    done = ranks.start(root, tmp_path / "kept", script=KEEPS).end()
    assert done.out == "held\n", done.err


UNPACK = """
import sys
from pathlib import Path
import archives, errors
try:
    print(archives.data_folder(sys.argv[1], Path(sys.argv[2]), sys.argv[3] or None, lambda text: print("said", text)))
except errors.BadInput as fault:
    print("refused", fault)
"""


def packed(kind: str, entries: dict[str, bytes | str]) -> bytes:
    """An archive; an entry that is text is a link to there."""
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in entries.items():
                entry = zipfile.ZipInfo(name)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = (0o120777 if isinstance(content, str) else 0o100644) << 16
                archive.writestr(entry, content)
        return file.getvalue()
    with tarfile.open(fileobj=file, mode="w:gz" if kind == "tar.gz" else "w") as archive:
        for name, content in entries.items():
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


GOOD: dict[str, bytes | str] = {"birds/train/a/1.jpg": b"wren" * 9, "birds/val/a/1.jpg": b"", "__MACOSX/x": b"x"}


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
def test_archives_are_unpacked_once_and_nothing_leaves_their_folder(ranks: Ranks, tmp_path: Path, kind: str) -> None:
    def unpacked(name: str, entries: dict[str, bytes | str], sha256: str = "") -> str:
        file = tmp_path / f"{name}.{kind}"
        file.write_bytes(packed(kind, entries))
        done = ranks.start(file, tmp_path / "kept", sha256, script=UNPACK).end()
        assert done.code == 0, done.err
        return done.out

    first = unpacked("good", GOOD)
    place = Path(first.splitlines()[-1])
    assert (place.name, (place / "train" / "a" / "1.jpg").read_bytes()) == ("birds", b"wren" * 9)
    assert "Unpacked 3 files" in first
    done = ranks.start(tmp_path / f"good.{kind}", tmp_path / "kept", "", script=UNPACK).end()
    assert "Unpacked" not in done.out
    assert done.out.splitlines()[-1] == str(place)

    there = {path for path in tmp_path.rglob("*") if "kept" not in path.parts}
    for name in ("../out.jpg", "/tmp/wren-out.jpg", "birds/../../out.jpg"):
        assert "refused" in unpacked("escape", {**GOOD, name: b"out"}), name
    assert "is a link or a device" in unpacked("link", {**GOOD, "birds/train/a/2.jpg": "/etc/passwd"})
    assert "a/1.jpg' twice. Pack it again." in unpacked(
        "twice", {**GOOD, "birds/val/./a/1.jpg": b"", "birds/./val/a/1.jpg": b""}
    )
    assert "has no folder train/ in it" in unpacked("empty", {"birds/a/1.jpg": b""})
    assert "has the SHA-256" in unpacked("other", {**GOOD, "x": b"y"}, "0" * 64)
    if kind != "tar":  # which is no smaller than what it holds
        assert "unpacks to more than 17 MB" in unpacked("bomb", {**GOOD, "birds/train/a/2.jpg": bytes(40_000_000)})
    added = {path for path in tmp_path.rglob("*") if "kept" not in path.parts} - there
    assert {path.suffix for path in added} <= {f".{kind}", ".gz"}
    left = [path for path in (tmp_path / "kept" / "data").iterdir() if path.suffix != ".lock"]
    assert left == [place.parent]
    assert not Path("/tmp/wren-out.jpg").exists()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, list[str], Path]]:
    """An https: server of a folder, what was asked of it, and the certificate to trust."""
    asked: list[str] = []
    folder = tmp_path / "served"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(folder))  # type: ignore[arg-type]

        def do_GET(self) -> None:
            asked.append(self.path)
            if self.path == "/elsewhere":
                self.send_response(302)
                self.send_header("Location", "http://127.0.0.1:9/birds.zip")
                self.end_headers()
                return
            super().do_GET()

        def log_message(self, *_: object) -> None:
            return

    (tmp_path / "certificates").mkdir()
    certificates = make_certificates(tmp_path / "certificates")
    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving.socket = certificates.context().wrap_socket(serving.socket, server_side=True)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"https://localhost:{serving.server_port}", asked, certificates.ca_file
    serving.shutdown()
    thread.join()
    serving.server_close()


def test_an_address_is_fetched_once_a_node_and_checked(
    ranks: Ranks, birds: Path, tmp_path: Path, server: tuple[str, list[str], Path]
) -> None:
    """Two ranks start together on one node: one of them fetches."""
    address, asked, certificate = server
    archive = tmp_path / "served" / "birds.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for path in sorted(birds.rglob("*.jpg")):
            out.write(path, path.relative_to(birds))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    arguments = [
        f"--data={address}/birds.zip?sig=secret",
        f"--data_sha256={digest}",
        f"--cache_dir={tmp_path / 'kept'}",
    ]
    places = [{**place, "SSL_CERT_FILE": str(certificate)} for place in azure_places(2)]
    ended = ranks.together(*arguments, f"--output_dir={tmp_path / 'outputs'}", *TINY, places=iter(places))
    assert [each.code for each in ended] == [0, 0], ended
    assert asked == ["/birds.zip?sig=secret"]
    assert f"SHA-256 {digest}" in ended[0].out
    assert "secret" not in "".join(each.out + each.err for each in ended)
    assert "secret" not in (tmp_path / "outputs" / "model" / "model.json").read_text()

    for path, sentence in (("elsewhere", "which is not https:"), ("none.zip", "could not be fetched (File not found)")):
        done = ranks.start(
            f"{address}/{path}", tmp_path / "kept", "", script=UNPACK, SSL_CERT_FILE=str(certificate)
        ).end()
        assert sentence in done.out, done


def test_bad_pictures_are_listed_and_end_every_rank_or_are_left_out(ranks: Ranks, birds: Path, tmp_path: Path) -> None:
    data = tmp_path / "birds"
    shutil.copytree(birds, data)
    for name in ("train/turkey/003.jpg", "val/chicken/001.jpg"):
        (data / name).write_bytes((data / name).read_bytes()[:2000])
    stopped = ranks.together(f"--data={data}", f"--output_dir={tmp_path / 'outputs'}", *TINY)
    assert [each.code for each in stopped] == [2, 2]
    assert stopped[0].err == stopped[1].err
    assert stopped[0].err.startswith(f"train.py: 2 pictures in {data} cannot be read.")
    assert "\n  train/turkey/003.jpg " in stopped[0].err
    assert "\n  val/chicken/001.jpg " in stopped[0].err
    assert not (tmp_path / "outputs" / "model").exists()

    skipped = ranks.together(f"--data={data}", f"--output_dir={tmp_path / 'outputs'}", "--bad_pictures=skip", *TINY)
    assert [each.code for each in skipped] == [0, 0], skipped
    assert "2 of 24 pictures cannot be read and are left out:\n  train/turkey/003.jpg " in skipped[0].out
    assert "16 pictures to train on, 6 to validate." in skipped[0].out


@pytest.mark.long
def test_a_broken_picture_among_thousands_is_told_when_a_loading_process_comes_to_it(
    ranks: Ranks, birds: Path, tmp_path: Path
) -> None:
    data = tmp_path / "birds"
    shutil.copytree(birds, data)
    broken = data / "train" / "turkey" / "broken.jpg"
    broken.write_bytes((data / "train" / "turkey" / "003.jpg").read_bytes()[:2000])
    for i in range(5_000):
        broken.with_name(f"broken-{i}.jpg").hardlink_to(broken)
    done = ranks.alone(f"--data={data}", f"--output_dir={tmp_path / 'outputs'}", "--workers=1", *TINY)
    assert done.code == 2
    assert re.fullmatch(r"train\.py: train/turkey/broken(-\d+)?\.jpg [^\n]+\n", done.err)
