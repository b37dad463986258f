"""Files that no job file should be: a sentence with line and column, in bounded time and memory, never a traceback."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footplate.jobfile import plan
from footplate.jobfile.check import UNREADABLE, check, check_file
from footplate.jobfile.document import Unreadable, parse
from footplate.operations import launch
from footplate.workspace import Invalid

START = "command: echo\nenvironment: azureml:e:1\n"
PNG = b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR" + bytes(range(256)) + zlib.compress(b"\0" * 100)


def exploding() -> str:
    lines = ["  a0: &a0 [x]"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    return f"{START}tags:\n" + "\n".join(lines) + "\n"


# What is wrong: the bytes of the file, the code and the place of its fault, and words of the sentence.
BAD = {
    "a tab": (f"{START}inputs:\n\tx: 1\n", "not-yaml", (4, 1), "a tab stands where only blanks may"),
    "a tab in a block": (f"{START}tags:\n  a: b\n \tc: d\n", "not-yaml", (5, 2), "a tab stands"),
    "a key twice": (f"{START}command: again\n", "duplicate-key", (3, 1), "'command' stands twice"),
    "a key twice, deep": (f"{START}tags: {{a: b, a: c}}\n", "duplicate-key", (3, 14), "'a' stands twice"),
    "empty": ("", "no-mapping", (1, 1), "it is empty"),
    "blank": ("\n \n\n", "no-mapping", (1, 1), "it is empty"),
    "only a comment": ("# command: x\n", "no-mapping", (1, 1), "it is empty"),
    "only a marker": ("---\n", "no-mapping", (1, 1), "it is empty"),
    "a list": ("- command: x\n", "no-mapping", (1, 1), "it holds a list"),
    "one word": ("\n\ncommand\n", "no-mapping", (3, 1), "it holds one value"),
    "exploding aliases": (exploding(), "too-large", None, "more than 20000 values"),
    "deep brackets": (f"{START}tags: {'[' * 100_000}\n", "too-large", None, "nested more than 100 deep"),
    "deep blocks": (
        START + "".join(f"{' ' * n}k:\n" for n in range(1000)),
        "too-large",
        None,
        "nested more than 100 deep",
    ),
    "itself in itself": (f"{START}tags: &a {{b: *a}}\n", "too-large", (3, 7), "holds itself by an anchor"),
    "no such anchor": (f"{START}tags: *nothing\n", "not-yaml", (3, 7), "undefined alias"),
    "a date": (f"{START}inputs:\n  d: 2026-01-01\n", "wrong-type", (4, 6), "not a date"),
    "a null": (f"{START}inputs:\n  d:\n", "wrong-type", (4, 5), "empty"),
    "a day that is none": (f"{START}inputs:\n  d: 2026-02-30\n", "bad-scalar", (4, 6), "looks like a YAML timestamp"),
    "a key that is a date": (f"{START}tags:\n  2026-01-01: x\n", "bad-key", (4, 3), "reads it as a date"),
    "a list as key": (f"{START}? [a, b]\n: c\n", "bad-key", (3, 3), "a list or mapping stands where a key belongs"),
    "NUL": (b"command: a\0b\n", "not-yaml", (1, 11), "holds the character U+0000"),
    "NUL, escaped": (f'{START}name: "a\\0b"\n', "bad-scalar", (3, 7), "holds a character that no command or path"),
    "an escape sequence": (b"command: a\x1b[31mb\n", "not-yaml", (1, 11), "holds the character U+001B"),
    "half a character": (f'{START}name: "\\ud800"\n', "bad-scalar", (3, 7), "holds a character that no"),
    "a picture": (PNG, "not-yaml", (1, 1), "is not UTF-8 text (byte 0)"),
    "UTF-16": (START.encode("utf-16"), "not-yaml", (1, 1), "UTF-16"),
    "UTF-16, no mark": (START.encode("utf-16-le"), "not-yaml", (1, 2), "holds the character U+0000"),
    "Latin-1": (START.encode() + "description: für\n".encode("latin-1"), "not-yaml", (3, 15), "is not UTF-8 text"),
    "10 MB": (START.encode() + b"# x\n" * 2_600_000, "too-large", (1, 1), "more than 1 MB"),
    "two documents": (f"{START}---\n{START}", "not-yaml", (3, 1), "a second document begins here"),
    "a Python object": (f"{START}tags: !!python/object:os.system x\n", "not-yaml", (3, 7), "the tag `!!python/object:os.system`"),
    "a tag of one's own": (f"{START}tags: !secret {{a: b}}\n", "not-yaml", (3, 7), "the tag `!secret`"),
    "YAML 2": (f"%YAML 2.0\n---\n{START}", "not-yaml", (1, 1), "found incompatible YAML document"),
    "unknown kind": ("anything: goes\n", "unknown-kind", (1, 1), "no kind of Azure ML file"),
    "an open bracket": (f"{START}tags: {{a: b\n", "not-yaml", (3, 7), "the bracket { that opens here is not closed"),
    "a colon in a text": ("environment: azureml:e:1\ncommand: echo a: b\n", "not-yaml", (2, 16), "a colon with a blank behind it"),
    "a colon at a text's end": (f"{START}tags:\n  - a: echo b:\n", "not-yaml", (4, 14), "a colon with a blank behind it"),
    "a key too deep": (f"{START}tags:\n  a: b\n    c: d\n", "not-yaml", (5, 5), "the value above goes on in this line"),
    "no blank behind a colon": (f"{START}name:x\ncompute: y\n", "not-yaml", (3, 1), "no blank stands behind the colon"),
    "no blank above": ("command:echo\nenvironment: azureml:e:1\n", "not-yaml", (2, 1), "the line above has no blank"),
    "a line without a key": (f"{START}tags:\n  a: b\n  and more\n  c: d\n", "not-yaml", (5, 3), "'and more' is no `key: value`"),
    "a quote left open": ('command: "echo\nenvironment: azureml:e:1\n', "not-yaml", (1, 10), "that opens here is never closed"),
    "a quote open to a marker": (f"{START}name: 'x\n---\na: b\n", "not-yaml", (3, 7), "that opens here is never closed"),
    "a quote closed by the next": (f'name: "x\n{START}tags: "y"\n', "not-yaml", (1, 7), "is closed by the next one, in line 4"),
    "text behind a quote": (f'name: "x" y\n{START}', "not-yaml", (1, 11), "text stands behind the closing quote"),
    "a key between two levels": (f"{START}tags:\n    a: b\n  c: d\n", "not-yaml", (5, 3), "indentation of this line fits no line"),
    "a key left of the first": (f" name: x\n{START}", "not-yaml", (2, 1), "indented less than the first key"),
    "an item among keys": (f"{START}tags:\n  a: b\n  - c\n", "not-yaml", (5, 3), "an item of a list stands among keys"),
    "an item behind a key": (f"{START}tags: - a\n", "not-yaml", (3, 7), "an item of a list stands behind its key"),
    "a bracket that closes nothing": (f"{START}name: x\n}}\n", "not-yaml", (4, 1), "closes nothing"),
    "text behind a bracket": (f"{START}name: {{x}} y\n", "not-yaml", (3, 11), "text stands behind the closing }"),
    "a percent sign first": (f"{START}name: %x\n", "not-yaml", (3, 7), "cannot begin with %"),
    "a percent sign at the top": (f"%name: x\n{START}", "not-yaml", (1, 1), "cannot begin with %"),
    "a wildcard": (f"{START}name: *.py\n", "not-yaml", (3, 7), "cannot begin with *"),
    "an escape that is none": (f'{START}name: "a\\d"\n', "not-yaml", (3, 9), "is no escape"),
    "text behind a block's mark": (f"{START}description: |text\n", "not-yaml", (3, 14), "text stands behind |"),
    "a number of 5,000 digits": (f"{START}inputs:\n  n: 0x{'f' * 3990}\n", "bad-scalar", (4, 6), "more than 4,000 digits"),
    "a number in sixties": (f"{START}inputs:\n  n: 1{':59' * 200_000}\n", "bad-scalar", (4, 6), "more than 4,000 digits"),
    "a template's braces": (f"{START}compute: {{{{name}}}}\n", "bad-key", (3, 11), "stands where a key belongs"),
}  # fmt: skip


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "job.yml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_a_fault_with_its_line_and_column(name, tmp_path):
    content, code, at, words = BAD[name]
    _, faults = check_file(write(tmp_path, content))
    found = [fault for fault in faults if fault.code == code]
    assert found, [(fault.code, fault.message) for fault in faults]
    assert found[0].severity == "error"
    assert words.lower() in found[0].message.lower()
    assert at is None or (found[0].line, found[0].column) == at
    assert found[0].hint or code == "wrong-type"
    assert all(fault.line >= 1 and fault.column >= 1 for fault in faults)


GOOD = {
    "a byte-order mark and CRLF": b"\xef\xbb\xbf" + START.replace("\n", "\r\n").encode(),
    "no last line break": START.rstrip().encode(),
    "only carriage returns": START.replace("\n", "\r").encode(),
    "tabs in comments and between words": f"# \t\n{START}description: 'a\tb'  # \tx\n".encode(),
    "YAML 1.2": f"%YAML 1.2\n---\n{START}".encode(),
    "markers": f"---\n{START}...\n".encode(),
    "a line of 200,000 characters": f"{START}description: {'word ' * 40_000}\n".encode(),
    "names in any script": f"{START}tags: {{'[bold]x[/]': '[red]', 名前: ä}}\n".encode(),
    "60 deep": f"{START}services: {{a: {{type: ssh, properties: {'{a: ' * 60}b{'}' * 60}}}}}\n".encode(),
}


@pytest.mark.parametrize("name", GOOD)
def test_an_odd_file_that_is_right_has_no_error(name, tmp_path):
    job_file, faults = check_file(write(tmp_path, GOOD[name]))
    assert job_file is not None
    assert [fault.message for fault in faults if fault.severity == "error"] == []
    assert job_file.command == "echo"


FILES = sorted((Path(__file__).resolve().parents[2] / "jobs").glob("*.yml"))
ODD = [
    *(
        "null",
        "[]",
        "{}",
        "[1, {a: b}]",
        "5",
        "1.5",
        "true",
        "2026-01-01",
        "''",
        "{a: {b: c}}",
        ".inf",
        "${{inputs.x}}",
    ),
    *(
        "${{",
        "azureml:",
        "-1",
        str(10**30),
        "{type: x}",
        "[[]]",
        '"\\n"',
        "!!binary aGk=",
        "!!set {a, b}",
        "{value: {a: 1}}",
    ),
    *("'[bold]x[/]'", "!!omap [a: 1]", "&a x", "*a", "{", "]", "|", "\t", "#", "'", "~"),
]


@settings(derandomize=True, deadline=None, database=None, max_examples=150)
@given(st.sampled_from(FILES), st.data())
def test_a_template_with_odd_values_in_it_has_faults_or_none_and_is_never_a_traceback(path, data):
    text = path.read_text(encoding="utf-8")
    places = [place for where, place in parse(text, path, path.parent).places.items() if where]
    # From the end on, so that the places before stay where they are.
    for place in sorted(data.draw(st.lists(st.sampled_from(places), max_size=3)), key=lambda place: -place.start):
        line_break = "\n" if text[place.end - 1 : place.end] == "\n" else ""
        text = f"{text[: place.start]} {data.draw(st.sampled_from(ODD))}{line_break}{text[place.end :]}"
    try:
        job_file = parse(text, path, path.parent)
    except Unreadable:
        return
    # What has a fault of the shape is refused; what has none runs, or is refused for another reason.
    refused = [fault for fault in check(job_file) if fault.code in UNREADABLE and fault.severity == "error"]
    with pytest.raises(Invalid) if refused else suppress(Invalid):
        plan(job_file)


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.yml")
    (tmp_path / "loop.yml").symlink_to("loop.yml")
    for path, words in [
        (tmp_path, "it is a folder"),
        (tmp_path / "pipe.yml", "it is a pipe or a device"),
        (Path("/dev/zero"), "it is a pipe or a device"),
        (tmp_path / "loop.yml", "cannot be read"),
        (tmp_path / "none.yml", "No such file"),
        (tmp_path / ("x" * 300), "cannot be read"),
        (Path("a\0b"), "cannot be read"),
    ]:
        with pytest.raises(Invalid, match=words):
            check_file(path)


def test_a_pipe_in_the_jobs_folder_is_no_template(tmp_path, monkeypatch):
    folder = tmp_path / "jobs"
    folder.mkdir()
    os.mkfifo(folder / "pipe.yml")
    (folder / "folder.yml").mkdir()
    (folder / "job.yml").write_text(START)
    monkeypatch.chdir(tmp_path)
    assert [path.name for path in launch.templates() if path.parent == folder] == ["job.yml"]


# As a command

BYTES = {
    "a list": b"- a\n",
    "a tab": BAD["a tab"][0].encode(),
    "a picture": PNG,
    "control characters in names": b'command: echo\nenvironment: azureml:e:1\n"\\e]0;x\\a[bold]key": "\\e[31m"\n',
    "exploding aliases": exploding().encode(),
    "deep brackets": f"{START}tags: {'[' * 100_000}\n".encode(),
    "10 MB": BAD["10 MB"][0],
}


def footplate(folder: Path, *arguments: str, home: Path) -> subprocess.CompletedProcess[bytes]:
    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    environment = {**os.environ, "FOOTPLATE_HOME": str(home), "FOOTPLATE_CONFIG": str(home / "none.toml")}
    return subprocess.run(
        [sys.executable, "-m", "footplate", *arguments],
        cwd=folder, env=environment, capture_output=True, timeout=300, check=False, preexec_fn=bounded,
    )  # fmt: skip


@pytest.mark.parametrize("command", ["check", "launch"])
@pytest.mark.parametrize("name", BYTES)
def test_a_command_given_a_bad_file_says_a_sentence_and_exits_2(name, command, tmp_path):
    write(tmp_path, BYTES[name])
    more = ["--dry-run"] if command == "launch" else []
    done = footplate(tmp_path, command, "job.yml", *more, home=tmp_path / "home")
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert b"job.yml" in said
    assert b"Traceback" not in said
    assert not [byte for byte in said if byte < 32 and byte != 10]
    assert len(done.stderr) < 2000


def test_a_file_name_that_is_no_text_is_said_with_its_bytes_shown(tmp_path):
    path = os.fsencode(tmp_path) + b"/b\xe4\x1b[31m.yml"
    with open(path, "wb") as file:  # noqa: PTH123 - pathlib takes no bytes
        file.write(b"- a\n")
    done = footplate(tmp_path, "check", os.fsdecode(path), home=tmp_path / "home")
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert b"Traceback" not in said
    assert b"\x1b" not in said
    assert b"holds a list" in said
