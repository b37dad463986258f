"""`footplate doctor --azure` on the local server: what holds there, what does not when the server is bent, and no names."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.wire import faults

from footplate import settings
from footplate.azure.claims import CLAIMS
from footplate.azure.doctor import Finding, examine
from footplate.azure.probes import PROBES
from footplate.cli import cli
from footplate.workspace import NotSignedIn

ROOT = Path(__file__).resolve().parents[2]
LOG = "user_logs/std_log.txt"


@pytest.fixture
def furnished(wire):
    """A workspace with something of everything."""
    wire.seed.demo()
    wire.seed.jobs(120, prefix="more")
    wire.seed.sweep("tuned", trials=2, at_once=2)
    wire.advance(7200)
    return wire


async def look(config: Path) -> dict[str, Finding]:
    return {one.claim.id: one for one in await examine("wire", settings.load(config))}


def not_held(found: dict[str, Finding]) -> dict[str, str]:
    return {name: one.saw for name, one in found.items() if one.held is False}


async def test_every_claim_is_tried_or_said_not_to_be(furnished, config):
    found = await look(config)
    assert list(found) == [claim.id for claim in CLAIMS]
    assert not_held(found) == {}
    for one in found.values():
        if one.claim.why_not:
            assert (one.held, one.saw) == (None, f"not probed: {one.claim.why_not}")
        else:
            assert one.held is True, (one.claim.id, one.saw)
            assert one.claim.id in PROBES
    assert {seen.method for seen in furnished.requests} == {"GET"}


async def test_an_empty_workspace_shows_little_and_breaks_nothing(wire, config):
    found = await look(config)
    assert not_held(found) == {}
    assert found["jobs-newest-first"].held is None
    assert found["datastores"].held is True


def _old_order(wire) -> None:
    wire.state.newest_jobs()  # sorted now, and not again while there are as many
    wire.state.jobs["train_now"]["systemData"]["createdAt"] = "2020-01-01T00:00:00+00:00"


def _unknown_status(wire) -> None:
    wire.state.jobs["more_00110"]["properties"]["status"] = "Hibernating"


def _odd_traffic(wire) -> None:
    wire.state.endpoints["birds-live"]["properties"]["traffic"] = {"blue": 50}


def _no_default(wire) -> None:
    wire.state.datastores["workspaceblobstore"]["properties"]["isDefault"] = False


def _other_store(wire) -> None:
    wire.state.jobs["more_00110"]["properties"]["outputs"]["default"]["uri"] = "azureml://datastores/elsewhere/paths/x"


def _short_addresses(wire) -> None:
    wire.sas_seconds = 600


def _no_range(wire) -> None:
    wire.faults.add("GET", "/blob/", faults.Fault(status=200, body=b"all of it"), times=None)


@pytest.mark.parametrize(
    ("bend", "claim", "saw"),
    [
        (_old_order, "jobs-newest-first", "neighbours in order"),
        (_unknown_status, "job-statuses", "unknown: Hibernating"),
        (_odd_traffic, "traffic-sum", "0 of 1 endpoints"),
        (_no_default, "datastores", "another one is the default"),
        (_other_store, "job-outputs-default", "command jobs"),
        (_short_addresses, "log-address-life", "good for 0.3 hours"),
        (_no_range, "log-range", "200, without Content-Range"),
    ],
)
async def test_a_claim_that_does_not_hold_is_reported_and_the_others_hold(furnished, config, bend, claim, saw):
    bend(furnished)
    found = await look(config)
    assert list(not_held(found)) == [claim]
    assert saw in found[claim].saw


async def test_what_refuses_or_makes_no_sense_is_no_answer(furnished, config):
    furnished.faults.add("GET", "/usages", faults.fail("role"), times=None)
    furnished.faults.add("GET", "/onlineEndpoints", faults.fail("html"), times=None)
    furnished.faults.add("GET", "/datastores", faults.Fault(status=200, body={"value": [{"name": 7}, 3]}), times=None)
    furnished.faults.add("GET", r"/models\?", faults.Fault(status=200, body=["no", "list"]), times=None)
    furnished.faults.add("GET", "/blob/", faults.fail("firewall"), times=None)
    found = await look(config)
    assert (found["usages"].held, found["usages"].saw) == (None, "could not be asked: the answer was 403")
    assert found["traffic-sum"].saw == "could not be asked: the answer was no JSON"
    assert found["datastores"].held is False
    assert found["model-fields"].held is None
    assert (found["log-range"].held, found["log-range"].saw) == (None, "storage refused: 403 AuthorizationFailure")


async def test_nobody_signed_in_ends_it(wire, config, monkeypatch):
    monkeypatch.setenv("FOOTPLATE_WIRE_TOKEN", "")
    with pytest.raises(NotSignedIn):
        await look(config)


def names_in(wire) -> set[str]:
    """Every name of the workspace that somebody could know it by."""
    state = wire.state
    things = (state.workspaces, state.clusters, state.jobs, state.endpoints, state.keys)
    found = {state.subscription_id, state.location, state.author, "someone@example.org", "localhost", wire.token}
    found |= {name for named in things for name in named if len(name) > 3}
    found |= {key.split("/")[0] for kind in ("models", "data") for key in state.assets[kind]}
    return found | {f"/{state.resource_group}/", f"/{state.workspace_name}"}


def test_the_report_is_json_and_names_nothing(furnished, config):
    furnished.faults.add("GET", r"/models\?", faults.fail("role"), times=None)  # its own text is full of names
    done = CliRunner().invoke(cli, ["doctor", "--azure", "--json"])
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert all(list(one) == ["claim", "basis", "held", "saw"] for one in report)
    assert len(report) == len(CLAIMS)
    saw = " | ".join(one["saw"] for one in report)
    assert [name for name in names_in(furnished) if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", saw)] == []
    assert "sig=" not in saw
    text = CliRunner().invoke(cli, ["doctor", "--azure"]).stdout
    assert "jobs-newest-first" in text
    assert re.search(r"\d+ held, 0 did not, \d+ were not shown", text)


def test_a_local_workspace_has_no_such_report(config):
    done = CliRunner().invoke(cli, ["doctor", "--azure", "--workspace", "local"])
    assert done.exit_code == 2
    assert "is not on Azure" in done.stderr


def test_claims_are_told_apart_and_have_a_source():
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)
    for claim in CLAIMS:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", claim.id)
        assert claim.text.endswith(".")
        assert claim.source
        assert claim.basis in ("recorded", "documented", "assumed")
        assert bool(claim.why_not) != (claim.id in PROBES), claim.id


def page(claims: Sequence | None = None) -> str:
    spec = importlib.util.spec_from_file_location("make_azure", ROOT / "docs" / "make_azure.py")
    make_azure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_azure)
    return make_azure.page() if claims is None else make_azure.page(claims)


def test_the_docs_have_every_claim_with_its_basis():
    assert (ROOT / "docs" / "azure.md").read_text() == page(), "run: python docs/make_azure.py"
    for claim in CLAIMS:
        row = next(line for line in page().splitlines() if line.startswith(f"| `{claim.id}`"))
        assert f"| {claim.basis} |" in row
    assert page(CLAIMS[:1]) != page()
