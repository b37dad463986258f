"""What differs on Azure: the rows that apply to a file, and a table that is silent of no key."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from footplate.jobfile import schema
from footplate.jobfile.document import parse
from footplate.jobfile.shapes import Keys, Shape
from footplate.local.differences import SAME, TABLE, contrasts, unlisted


def topics(text: str) -> list[str]:
    return [row.topic for row in contrasts(parse(text, None, Path()))]


def keys_of(shape: Shape, prefix: str = "", deep: int = 1) -> set[str]:
    """The keys of a kind's files, one level deep into those of `resources`, `settings` and `trial`."""
    if forms := getattr(shape, "forms", ()):
        return {key for one in forms for key in keys_of(one, prefix, deep)}
    if not isinstance(shape, Keys):
        return set()
    found = set()
    for name, inner in shape.keys.items():
        found.add(f"{prefix}{name}")
        if name == "trial":
            found |= keys_of(inner, "", deep)
        elif name in ("resources", "settings") and deep:
            found |= keys_of(inner, f"{prefix}{name}.", deep - 1)
    return found


@pytest.mark.parametrize("kind", sorted(SAME))
def test_the_table_is_silent_of_no_key_of_the_files(kind):
    keys = keys_of(schema.SHAPES[kind])
    assert len(keys) > 8
    assert unlisted(kind, sorted(keys)) == []


def test_a_key_that_nobody_listed_is_found():
    assert unlisted("command", ["command", "resources.turbo", "turbo", "name"]) == ["resources.turbo", "turbo"]


def test_every_row_names_keys_that_files_have():
    known = {kind: keys_of(schema.SHAPES[kind]) for kind in SAME}
    strange = [
        (row.topic, key)
        for row in TABLE
        for key in row.keys
        if not any(key in known[kind] or key == "limits.timeout" for kind in row.kinds)
    ]
    assert strange == []


def test_a_small_job_has_only_the_rows_that_touch_it():
    assert topics("command: echo\nenvironment: azureml:e@latest\ncompute: azureml:gpu\n") == [
        "start",
        "environment",
        "compute",
        "tracking",
    ]


@pytest.mark.parametrize(
    ("more", "topic"),
    [
        ("resources: {instance_count: 2}", "nodes"),
        ("resources: {shm_size: 2g}", "machine"),
        ("inputs: {d: {path: ./birds}}", "inputs"),
        ("outputs: {m: }", "outputs"),
        ("services: {s: {type: ssh}}", "services"),
        ("queue_settings: {job_tier: spot}", "priority"),
        ("limits: {timeout: 60}", "limits"),
        ("identity: {type: managed}", "identity"),
        ("environment_variables: {A: b}", "variables"),
        ("", "serverless"),
    ],
)
def test_what_the_file_says_brings_its_row(more, topic):
    bare = "command: echo\nenvironment: azureml:e@latest\n"
    assert topic in topics(f"{bare}{more}\n")
    if topic != "serverless":
        assert topic not in topics(bare)


def test_a_literal_input_and_one_node_bring_no_row():
    assert not {"inputs", "nodes"} & set(
        topics("command: echo\nenvironment: x\ninputs: {lr: 0.1}\nresources: {instance_count: 1}\n")
    )


def test_a_sweep_a_pipeline_and_a_deployment_have_rows_of_their_own():
    sweep = """type: sweep
trial: {command: x, environment: 'azureml:e@latest', resources: {instance_count: 2}}
sampling_algorithm: bayesian
search_space: {lr: {type: uniform, min_value: 0, max_value: 1}}
objective: {goal: minimize, primary_metric: loss}
limits: {max_total_trials: 2}
early_termination: {type: bandit, slack_factor: 0.1}
"""
    found = topics(sweep)
    assert {"sampling", "bayesian", "early termination", "best trial", "trials at once", "nodes"} <= set(found)
    assert "bayesian" not in topics(sweep.replace("bayesian", "random"))
    assert "steps" in topics("type: pipeline\njobs: {a: {command: x, environment: e}}\n")
    served = topics(
        "name: blue\nendpoint_name: e\nmodel: azureml:m:1\ninstance_type: Standard_DS3_v2\ninstance_count: 1\n"
    )
    assert served[:2] == ["start", "machine"]
    assert "network" in served


def test_the_page_is_what_the_table_says():
    root = Path(__file__).parents[2] / "docs"
    made = importlib.util.spec_from_file_location("make_differences", root / "make_differences.py")
    assert made is not None
    assert made.loader is not None
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run python docs/make_differences.py"
