"""The commands on clusters of this machine, run to their end."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.commands import Inside


@pytest.fixture
def footplate(tmp_path: Path) -> Inside:
    return Inside(tmp_path)


def test_a_cluster_is_made_reused_changed_shown_and_deleted(footplate):
    made = footplate.json(
        *("cluster", "create", "small", "--size", "cores-1", "--min-instances", "1", "--max-instances", "2"),
        *("--idle-time-before-scale-down", "60", "--tier", "low_priority"),
    )
    assert {key: made[key] for key in ("name", "size", "state", "min_instances", "max_instances", "tier")} == {
        "name": "small",
        "size": "cores-1",
        "state": "Succeeded",
        "min_instances": 1,
        "max_instances": 2,
        "tier": "LowPriority",
    }
    assert made["idle_time_before_scale_down"] == 60
    again = footplate("cluster", "create", "small", "--size", "CORES-1", "--max-instances", "9")
    assert (again.returncode, "is reused as it is" in again.stdout) == (0, True)
    assert footplate.json("cluster", "create", "small", "--size", "cores-1")["max_instances"] == 2
    other = footplate("cluster", "create", "small", "--size", "cores-2")
    assert (other.returncode, other.stdout) == (1, "")
    assert "of size cores-1, not cores-2" in other.stderr
    changed = footplate.json("cluster", "update", "small", "--max-instances", "3")
    assert (changed["min_instances"], changed["max_instances"]) == (1, 3)
    shown = footplate.json("cluster", "show", "small")
    assert [node["state"] for node in shown["nodes"]] == ["idle"]
    assert "idle" in footplate("cluster", "show", "small").stdout
    assert "small" in footplate("clusters").stdout
    assert footplate.json("cluster", "delete", "small") == {"name": "small", "state": "Deleted"}
    assert [one["name"] for one in footplate.json("clusters")] == ["local"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("create", "small"), 2, "--size"),
        (("create", "small", "--size", "coers-1"), 2, "cores-1"),
        (("create", "small", "--size", "cores-9999"), 1, "The largest size is"),
        (("create", "1st", "--size", "cores-1"), 2, "1st"),
        (("create", "small", "--size", "cores-1", "--tier", "cheap"), 2, "low_priority"),
        (("create", "small", "--size", "cores-1", "--max-instances", "-1"), 2, "--max-instances"),
        (("create", "small", "--size", "cores-1", "--min-instances", "2", "--max-instances", "1"), 2, "2"),
        (("create", "small"), 2, "footplate cluster sizes"),
        (("update", "nobody", "--max-instances", "2"), 2, "nobody"),
        (("update", "local"), 2, "nothing to change"),
        (("show", "nobody"), 2, "nobody"),
        (("delete", "nobody"), 2, "nobody"),
        (("delete", "local"), 2, "local"),
        (("create", "small", "--size", "cores-1", "--read-only"), 4, "read-only"),
    ],
)
def test_wrong_input_is_a_sentence_and_makes_nothing(footplate, arguments, code, words):
    done = footplate("cluster", *arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert [one["name"] for one in footplate.json("clusters")] == ["local"]


def test_sizes_and_quota_of_this_machine(footplate):
    assert footplate.json("cluster", "sizes")[0]["name"] == "cores-1"
    (quota,) = footplate.json("quota")
    assert (quota["used"], quota["limit"] >= 1) == (0, True)
    assert footplate("quota").stdout.startswith("FAMILY")
    assert footplate.json("environments") == []
    assert footplate.json("datastores") == []
