"""`footplate doctor` on this machine: what stands in the way is told with what to do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.terminal import Terminal

from footplate.cli import cli
from footplate.operations import doctor

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /home rw shared:2 - nfs4 server:/home rw,vers=4.2
31 30 0:26 / /home/me/my\040data rw - fuse.sshfs host:/ rw
32 22 0:27 / /scratch rw - ext4 /dev/sdb1 rw
33 22 0:28 / /scratch rw master:3 - lustre mgs:/x rw
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and settings that are not there yet, and no other program than those that a test makes."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.delenv("FOOTPLATE_WORKSPACE", raising=False)
    monkeypatch.setenv("PATH", str(programs))
    return tmp_path


def found(name: str) -> doctor.Check:
    return next(check for check in doctor.examine() if check.check == name)


def program(machine: Path, name: str, script: str) -> None:
    file = machine / "bin" / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_on_a_machine_that_is_well_nothing_stands_in_the_way_and_nothing_is_made(machine):
    checks = doctor.examine()
    assert [check for check in checks if check.ok is False] == []
    names = [check.check for check in checks]
    assert names == [
        *("python", "libraries", "extra local", "home", "file system", "disk", "logging out", "terminal", "settings")
    ]
    assert sorted(path.name for path in machine.iterdir()) == ["bin"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/x", "ext4"),
        ("/home/me", "nfs4"),
        ("/homes/me", "ext4"),
        ("/home/me/my data/footplate", "fuse.sshfs"),
        ("/scratch/a", "lustre"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(path, kind):
    assert doctor.file_system(Path(path), MOUNTS) == kind


def test_a_home_on_a_network_file_system_is_in_the_way(machine, monkeypatch):
    monkeypatch.setattr(doctor, "file_system", lambda path, mounts: "nfs4")
    check = found("file system")
    assert check.ok is False
    assert "nfs4" in check.saw
    assert "FOOTPLATE_HOME" in check.next_step


def test_a_file_in_the_homes_place_is_in_the_way(machine, monkeypatch):
    (machine / "file").write_text("")
    monkeypatch.setenv("FOOTPLATE_HOME", str(machine / "file" / "home"))
    check = found("home")
    assert check.ok is False
    assert "is no folder" in check.saw


def test_a_home_that_others_may_read_is_told(machine):
    (machine / "home").mkdir(mode=0o755)
    (machine / "home").chmod(0o755)
    assert found("home").ok is None
    assert "chmod 700" in found("home").next_step


@pytest.mark.parametrize(
    ("manager", "user", "ok", "words"),
    [
        ("KillUserProcesses=no", "Linger=no", True, "jobs go on"),
        ("KillUserProcesses=yes", "Linger=no", False, "loginctl enable-linger"),
        ("KillUserProcesses=yes", "Linger=yes", None, "systemd-run --user --scope"),
    ],
)
def test_whether_jobs_outlive_the_session_is_asked_of_systemd(machine, manager, user, ok, words):
    program(machine, "loginctl", f'if [ "$1" = show-session ]; then echo {manager}; else echo {user}; fi')
    check = found("logging out")
    assert check.ok is ok
    assert words in f"{check.saw} {check.next_step}"


def test_a_loginctl_without_a_systemd_tells_nothing(machine):
    program(machine, "loginctl", "echo 'System has not been booted with systemd' >&2; exit 1")
    assert found("logging out").ok is None


def test_what_the_extra_lacks_is_named_and_no_fault(machine, monkeypatch):
    monkeypatch.setattr(doctor, "_EXTRA", ("json", "torch_that_is_not_there"))
    check = found("extra local")
    assert check.ok is None
    assert "torch_that_is_not_there" in check.saw
    assert "footplate[local]" in check.next_step


def test_a_faulty_workspace_is_found_and_the_others_are_looked_at(machine):
    (machine / "config.toml").write_text(
        '[workspaces.prod]\nkind = "azure"\nsubscription_id = "s"\nresource_group = "r"\nworkspace_name = "w"\n'
        '[workspaces.bent]\nkind = "azure"\ncloud = "Moon"\n[workspaces.here]\nread_only = true\n'
    )
    assert found("workspace prod").ok is True
    assert found("workspace bent").ok is False
    assert "'Moon'" in found("workspace bent").saw
    assert found("workspace here").saw == "local, read-only"


def test_a_workspace_of_this_machine_is_looked_at_without_making_its_home(machine):
    (machine / "config.toml").write_text('[workspaces.here]\nkind = "local"\nread_only = true\n')
    assert found("workspace here").saw == "local, read-only"
    assert not (machine / "home").exists()


def test_the_command_ends_with_1_where_something_is_in_the_way(machine):
    done = CliRunner().invoke(cli, ["doctor", "--json"])
    assert done.exit_code == 0
    assert all(list(check) == ["check", "ok", "saw", "next_step"] for check in json.loads(done.stdout))
    (machine / "config.toml").write_text("workspace = 3\n")
    done = CliRunner().invoke(cli, ["doctor"])
    assert done.exit_code == 1
    assert "NO  settings" in done.stdout
    assert "→ Mend the settings file." in done.stdout


@pytest.mark.parametrize(
    ("columns", "environment", "words"),
    [
        (100, {}, b"ok  terminal     xterm-256color, 100\xc3\x97"),
        (60, {}, b"Below 80"),
        (100, {"TERM": "dumb"}, b"NO  terminal"),
        (100, {"PYTHONIOENCODING": "ascii"}, b"UTF-8 locale"),
    ],
)
def test_the_terminal_is_looked_at(machine, columns, environment, words):
    command = [sys.executable, "-m", "footplate", "doctor"]
    with Terminal(command, columns=columns, environment={"LC_ALL": "C.UTF-8", "TMUX": "", **environment}) as terminal:
        terminal.wait()
        assert words in bytes(terminal.output)
