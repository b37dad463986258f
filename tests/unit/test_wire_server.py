"""The wire server by plain requests: lists, logs, faults, limits, signatures, clock."""

from __future__ import annotations

import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from tests.wire import JobPlan, WireServer, cut, fail, running_server, slow
from tests.wire.client import RawClient, loopback_names
from tests.wire.directory import CLIENT_SECRET

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with running_server(job_page_size=10) as wire, loopback_names():
        wire.seed.cluster("cpu", high=2)
        yield wire


@pytest.fixture
def raw(wire: WireServer) -> Iterator[RawClient]:
    client = RawClient(wire)
    yield client
    client.close()


def details(raw: RawClient, wire: WireServer, job: str) -> Any:
    return raw.send("GET", f"{wire.api}/history/v1.0{wire.state.ws}/runs/{job}/details").json()


def list_jobs(raw: RawClient, query: str = "") -> list[str]:
    """The names of all pages."""
    found, body = [], raw.get(f"jobs?{query}" if query else "jobs")
    while True:
        found += [one["name"] for one in body["value"]]
        if "nextLink" not in body:
            return found
        body = raw.send("GET", body["nextLink"]).json()


async def test_it_also_runs_in_the_loop_of_a_test() -> None:
    import aiohttp

    async with WireServer() as wire, aiohttp.ClientSession() as session:
        context = ssl.create_default_context(cafile=wire.ca_file)
        address = f"https://localhost:{wire.port}{wire.state.ws}?api-version=1"
        headers = {"Authorization": f"Bearer {wire.token}"}
        async with session.get(address, ssl=context, headers=headers) as response:
            assert (await response.json())["name"] == "ws"
        assert [(one.method, one.status) for one in wire.requests] == [("GET", 200)]


def test_jobs_come_newest_first_in_pages_that_new_jobs_do_not_shift(raw: RawClient, wire: WireServer) -> None:
    wire.seed.jobs(25)
    expected = [f"seed_{number:05d}" for number in range(25, 0, -1)]
    assert list_jobs(raw) == expected
    first = raw.get("jobs")
    wire.seed.submit("newer")
    second = raw.send("GET", first["nextLink"]).json()
    assert [one["name"] for one in second["value"]] == expected[10:20]
    assert len([one for one in wire.requests if one.path.endswith("/jobs")]) == 5


def test_the_list_is_filtered_by_type_tag_and_view(raw: RawClient, wire: WireServer) -> None:
    wire.seed.submit("plain", tags={"owner": "me"})
    wire.seed.sweep("swept", trials=1)
    wire.seed.submit("hidden", isArchived=True)
    wire.advance(5)
    assert list_jobs(raw) == ["swept", "plain"]
    assert list_jobs(raw, "jobType=Sweep") == ["swept"]
    assert list_jobs(raw, "tag=owner=me") == ["plain"]
    assert list_jobs(raw, "listViewType=ArchivedOnly") == ["hidden"]


def test_what_is_missing_is_told_apart(raw: RawClient, wire: WireServer) -> None:
    def code(path: str) -> tuple[int, str]:
        response = raw.send("GET", f"{path}?api-version=1")
        return response.status_code, response.json()["error"]["code"]

    ws = wire.state.ws
    assert code(ws.replace("-000000000001", "-000000000002")) == (404, "SubscriptionNotFound")
    assert code(ws.replace("/rg/", "/other/")) == (404, "ResourceGroupNotFound")
    assert code(ws.replace("/ws", "/other")) == (404, "ResourceNotFound")
    assert code(f"{ws}/jobs/other") == (404, "UserError")
    assert code(f"{ws}/computes/other") == (404, "ResourceNotFound")
    assert raw.send("GET", f"{ws}/jobs").json()["error"]["code"] == "MissingApiVersionParameter"
    assert raw.send("GET", ws.replace("resourceGroups", "resourcegroups") + "?api-version=1").status_code == 200


def test_tokens_are_checked(raw: RawClient, wire: WireServer) -> None:
    path = "jobs?api-version=1"
    assert raw.send("GET", path, token="").status_code == 401
    assert raw.send("GET", path, token="a.b.c").status_code == 401
    assert raw.send("GET", path, token=wire.tokens.issue(seconds=-1)).status_code == 401
    wire.tokens.revoke(wire.token)
    response = raw.send("GET", path)
    assert response.json()["error"]["code"] == "InvalidAuthenticationToken"
    assert 'error="invalid_token"' in response.headers["WWW-Authenticate"]


def test_a_log_grows_and_is_read_from_a_byte_on(raw: RawClient, wire: WireServer) -> None:
    wire.default_plan = JobPlan(starting=0, preparing=1, running=100, lines_per_second=5, line=lambda i: f"line {i}")
    wire.seed.submit("job")
    wire.advance(3)
    address = details(raw, wire, "job")["logFiles"]["user_logs/std_log.txt"]
    first = raw.send("GET", address, token="").content
    assert first == b"".join(b"line %d\n" % number for number in range(10))
    response = raw.send("GET", address, token="", Range=f"bytes={len(first)}-")
    assert (response.status_code, response.headers["Content-Range"]) == (416, f"bytes */{len(first)}")
    assert response.headers["x-ms-error-code"] == "InvalidRange"
    wire.advance(1)
    response = raw.send("GET", address, token="", Range=f"bytes={len(first)}-")
    assert response.status_code == 206
    assert response.content.startswith(b"line 10\n")
    assert response.headers["Content-Range"].startswith(f"bytes {len(first)}-")
    wire.replace_log("job", "user_logs/std_log.txt", b"short")
    assert raw.send("GET", address, token="", Range="bytes=2-3").content == b"or"
    assert raw.send("HEAD", address, token="").headers["Content-Length"] == "5"


def test_an_address_ends_with_time_or_on_demand(raw: RawClient, wire: WireServer) -> None:
    wire.seed.job("job")
    wire.seed.log("job", "user_logs/std_log.txt", b"text")
    for end in (lambda: wire.advance(9 * 3600), wire.expire_addresses):
        address = details(raw, wire, "job")["logFiles"]["user_logs/std_log.txt"]
        assert raw.send("GET", address, token="").content == b"text"
        end()
        response = raw.send("GET", address, token="")
        assert (response.status_code, response.headers["x-ms-error-code"]) == (403, "AuthenticationFailed")
    wire.faults.add("GET", "/blob/.*std_log", fail("firewall"))
    address = details(raw, wire, "job")["logFiles"]["user_logs/std_log.txt"]
    response = raw.send("GET", address, token="")
    assert (response.status_code, response.headers["x-ms-error-code"]) == (403, "AuthorizationFailure")
    other = address.replace("std_log", "other")
    assert raw.send("GET", other, token="").status_code == 403  # the signature is of one blob


def test_blobs_are_put_whole_and_in_blocks_and_listed(raw: RawClient, wire: WireServer) -> None:
    asked = {"pendingUploadType": "TemporaryBlobReference"}
    answer = raw.send("POST", "codes/c/versions/1/startPendingUpload?api-version=1", asked).json()
    container, _, sas = answer["blobReferenceForConsumption"]["credential"]["sasUri"].partition("?")
    put = raw.send("PUT", f"{container}/src/a.py?{sas}", b"one", token="", x_ms_blob_type="BlockBlob", x_ms_meta_k="v")
    assert put.status_code == 201
    for block, data in (("QQ==", b"first "), ("Qg==", b"second")):
        raw.send("PUT", f"{container}/src/b.py?comp=block&blockid={block}&{sas}", data, token="")
    listed = b"<BlockList><Latest>QQ==</Latest><Latest>Qg==</Latest></BlockList>"
    assert raw.send("PUT", f"{container}/src/b.py?comp=blocklist&{sas}", listed, token="").status_code == 201
    assert raw.send("GET", f"{container}/src/b.py?{sas}", token="").content == b"first second"
    assert raw.send("HEAD", f"{container}/src/a.py?{sas}", token="").headers["x-ms-meta-k"] == "v"
    assert raw.send("HEAD", f"{container}/src/c.py?{sas}", token="").status_code == 404
    names = raw.send("GET", f"{container}?restype=container&comp=list&prefix=src/&{sas}", token="").text
    assert names.count("<Blob>") == 2
    assert raw.send("DELETE", f"{container}/src/a.py?{sas}", token="").status_code == 403  # rcwl has no d


def test_faults_act_so_often_as_told(raw: RawClient, wire: WireServer) -> None:
    path = "jobs?api-version=1"
    wire.faults.add("GET", "/jobs", fail(429, retry_after=7), times=2, skip=1)
    assert [raw.send("GET", path).status_code for _ in range(4)] == [200, 429, 429, 200]
    wire.faults.add("PUT", "/computes", fail("role"), times=None)
    refused = raw.send("PUT", "computes/x?api-version=1", {}).json()["error"]
    assert "Microsoft.MachineLearningServices/workspaces/computes/write" in refused["message"]
    wire.faults.clear()
    for what, status in ((500, 500), (503, 503), (404, 404), (409, 409), ("html", 200)):
        wire.faults.add("GET", "/jobs", fail(what))
        assert raw.send("GET", path).status_code == status
    wire.faults.add("GET", "/jobs", slow(0.05))
    assert raw.send("GET", path).elapsed.total_seconds() > 0.05
    assert [one.status for one in wire.requests[:3]] == [200, 429, 429]


def test_a_connection_is_cut_after_so_many_bytes(raw: RawClient, wire: WireServer) -> None:
    wire.seed.job("job")
    wire.seed.log("job", "user_logs/std_log.txt", b"0123456789" * 10_000)
    address = details(raw, wire, "job")["logFiles"]["user_logs/std_log.txt"]
    wire.faults.add("GET", "/blob", cut(25_000))
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        raw.send("GET", address, token="")
    wire.faults.add("GET", "/blob", cut(-1))
    with pytest.raises(requests.exceptions.ConnectionError):
        raw.send("GET", address, token="")
    assert len(raw.send("GET", address, token="").content) == 100_000


def test_limits_are_a_bucket_that_the_clock_fills(raw: RawClient, wire: WireServer) -> None:
    wire.limits.enforced = True
    path = "computes?api-version=1"
    left = raw.send("GET", path).headers["x-ms-ratelimit-remaining-subscription-reads"]
    assert left == "249"
    wire.limits.reads.left = 1
    assert raw.send("GET", path).status_code == 200
    refused = raw.send("GET", path)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert details(raw, wire, "missing")["error"]["code"] == "UserError"  # run history is not counted
    wire.advance(2)
    assert raw.send("GET", path).headers["x-ms-ratelimit-remaining-subscription-reads"] == "49"


def test_jobs_wait_for_nodes_which_come_and_go(raw: RawClient, wire: WireServer) -> None:
    compute = f"{wire.state.ws}/computes/cpu"
    for name in ("one", "two", "three"):
        wire.seed.submit(name, computeId=compute)

    def state() -> list[str]:
        return [wire.state.jobs[name]["properties"]["status"] for name in ("one", "two", "three")]

    def counts() -> dict[str, int]:
        inner = raw.get("computes/cpu")["properties"]["properties"]
        return {key.removesuffix("NodeCount"): value for key, value in inner["nodeStateCounts"].items() if value}

    wire.advance(15)
    assert (state(), counts()) == (["Queued"] * 3, {"preparing": 2})
    wire.advance(20)
    assert (state(), counts()) == (["Running", "Running", "Queued"], {"running": 2})
    nodes = raw.send("POST", "computes/cpu/listNodes?api-version=1").json()["nodes"]
    assert [node["runId"] for node in nodes] == ["one", "two"]
    wire.advance(65)
    assert (state(), counts()) == (["Completed", "Completed", "Running"], {"running": 1, "idle": 1})
    wire.advance(600)
    assert (state(), counts()) == (["Completed"] * 3, {})


def test_metrics_are_read_as_mlflow_and_as_run_history(raw: RawClient, wire: WireServer) -> None:
    wire.seed.submit("job")
    wire.advance(200)
    base = f"{wire.api}/mlflow/v2.0{wire.state.ws}/api/2.0/mlflow"
    run = raw.send("GET", f"{base}/runs/get?run_id=job").json()["run"]
    assert run["info"]["status"] == "FINISHED"
    assert {one["key"] for one in run["data"]["metrics"]} == {"loss", "val_acc", "best_val_acc", "learning_rate"}
    history = raw.send("GET", f"{base}/metrics/get-history?run_id=job&metric_key=loss").json()["metrics"]
    assert [one["step"] for one in history] == list(range(15))
    page = raw.send("GET", f"{base}/metrics/get-history?run_id=job&metric_key=loss&max_results=10").json()
    assert (len(page["metrics"]), page["next_page_token"]) == (10, "10")
    full = raw.send("POST", f"{wire.api}/metric/v2.0{wire.state.ws}/runs/job/full", {"name": "loss"}).json()
    assert [one["data"]["loss"] for one in full["value"]] == [one["value"] for one in history]


def test_an_endpoint_refuses_a_second_change_and_traffic_by_new_versions(raw: RawClient, wire: WireServer) -> None:
    wire.seed.endpoint("live", {"blue": 100, "green": 0})
    change = {"properties": {"traffic": {"blue": 90, "green": 10}}}
    refused = raw.send("PATCH", "onlineEndpoints/live?api-version=2024-04-01", change).json()["error"]
    assert "Could not find member 'properties'" in refused["details"][0]["message"]
    going = raw.send("PATCH", "onlineEndpoints/live?api-version=2022-02-01-preview", change)
    assert (going.status_code, going.json()["properties"]["provisioningState"]) == (200, "Updating")
    assert raw.send("PATCH", "onlineEndpoints/live?api-version=2022-02-01-preview", change).status_code == 409
    wire.advance(30)
    assert raw.get("onlineEndpoints/live")["properties"]["traffic"] == {"blue": 90, "green": 10}
    wrong = {"properties": {"traffic": {"blue": 50, "red": 50}}}
    assert raw.send("PATCH", "onlineEndpoints/live?api-version=2022-02-01-preview", wrong).status_code == 400


def test_scoring_checks_the_key_and_shares_by_traffic(raw: RawClient, wire: WireServer) -> None:
    wire.seed.endpoint("live", {"blue": 90, "green": 10})
    address = raw.get("onlineEndpoints/live")["properties"]["scoringUri"]
    key = raw.send("POST", "onlineEndpoints/live/listKeys?api-version=1").json()["primaryKey"]
    assert raw.send("POST", address, b"{}", token="").status_code == 401
    assert raw.send("POST", address, b"{}", token="wrong").status_code == 403
    chosen = [raw.send("POST", address, b"{}", token=key).headers["azureml-model-deployment"] for _ in range(20)]
    assert (chosen.count("blue"), chosen.count("green")) == (18, 2)
    named = raw.send("POST", address, b"{}", token=key, azureml_model_deployment="green")
    assert named.json()["deployment"] == "green"
    assert raw.send("POST", address, b"{}", token=key, azureml_model_deployment="red").status_code == 404
    wire.state.scorer = lambda call: (500, {"error": "no picture"})
    failed = raw.send("POST", address, b"{}", token=key)
    assert (failed.status_code, failed.headers["ms-azureml-model-error-statuscode"]) == (424, "500")


def test_a_deployment_can_be_told_to_fail(raw: RawClient, wire: WireServer) -> None:
    wire.seed.endpoint("live")
    wire.deployment_errors["live/blue"] = {"code": "ResourceNotReady", "message": "User container has crashed"}
    inner = {"endpointComputeType": "Managed", "instanceType": "Standard_DS3_v2"}
    body = {"location": "eastus2", "properties": inner}
    going = raw.send("PUT", "onlineEndpoints/live/deployments/blue?api-version=1", body)
    wire.advance(100)
    ended = raw.send("GET", going.headers["Azure-AsyncOperation"]).json()
    assert (ended["status"], ended["error"]["code"]) == ("Failed", "ResourceNotReady")
    assert raw.get("onlineEndpoints/live/deployments/blue")["properties"]["provisioningState"] == "Failed"


def test_five_thousand_jobs_are_seeded_and_listed(raw: RawClient, wire: WireServer) -> None:
    wire.job_page_size = 100
    wire.seed.jobs(5000)
    assert len(list_jobs(raw)) == 5000
    assert len(wire.requests) == 50


def test_it_runs_as_a_process(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    command = [sys.executable, "-m", "tests.wire", "--settings-file", str(settings)]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        lines = {}
        for line in process.stdout:
            name, _, value = line.strip().partition("=")
            lines[name.strip()] = value.strip().strip('"')
            if "TOKEN" in name:
                break
        context = ssl.create_default_context(cafile=lines["ca_file"])
        address = lines["resource_manager"].replace("management.", "") + "/subscriptions?api-version=1"
        request = urllib.request.Request(
            address, headers={"Authorization": f"Bearer {lines['# export FOOTPLATE_WIRE_TOKEN']}"}
        )
        with urllib.request.urlopen(request, context=context) as response:
            assert response.status == 200
        assert 'kind = "azure"' in settings.read_text()
        process.terminate()
        assert process.wait(20) == 0


def test_it_signs_in_a_service_principal_and_a_person(raw: RawClient, wire: WireServer) -> None:
    from azure.core.exceptions import ClientAuthenticationError
    from azure.identity import ClientSecretCredential, DeviceCodeCredential

    tenant, client = "00000000-0000-0000-0000-0000000000aa", "00000000-0000-0000-0000-0000000000bb"
    options: Any = {
        "authority": wire.active_directory,
        "disable_instance_discovery": True,
        "connection_verify": str(wire.ca_file),
    }
    scope = f"{wire.resource_manager}/.default"
    with ClientSecretCredential(tenant, client, CLIENT_SECRET, **options) as credential:
        token = credential.get_token(scope).token
    assert raw.send("GET", "jobs?api-version=1", token=token).status_code == 200
    with (
        ClientSecretCredential(tenant, client, "wrong", **options) as credential,
        pytest.raises(ClientAuthenticationError, match="AADSTS7000215"),
    ):
        credential.get_token(scope)
    shown = []

    def show(address: str, code: str, until: Any) -> None:
        shown.append(code)
        wire.directory.confirm(code)

    with DeviceCodeCredential(client, tenant_id=tenant, prompt_callback=show, **options) as credential:
        token = credential.get_token(scope).token
    assert len(shown) == 1
    assert raw.send("GET", "jobs?api-version=1", token=token).status_code == 200


def test_a_job_goes_on_by_itself_where_the_clock_runs() -> None:
    with running_server(speed=2000, operation_polls=None) as wire, loopback_names():
        raw = RawClient(wire)
        wire.seed.submit("job")
        until = time.monotonic() + 10
        while (status := raw.get("jobs/job")["properties"]["status"]) != "Completed":
            assert time.monotonic() < until, status
        raw.close()
        assert wire.state.logs("job")["user_logs/std_log.txt"].count(b"\n") == 120


def test_the_figures_of_a_deployment_come_minutes_late(raw: RawClient, wire: WireServer) -> None:
    wire.seed.endpoint("live", {"blue": 100})
    path = "onlineEndpoints/live/deployments/blue/providers/Microsoft.Insights/metrics"
    answer = raw.get(f"{path}?metricnames=RequestsPerMinute,RequestLatency_P95", "2024-02-01")
    assert [one["name"]["value"] for one in answer["value"]] == ["RequestsPerMinute", "RequestLatency_P95"]
    newest = [one["timeStamp"] for one in answer["value"][0]["timeseries"][0]["data"] if "average" in one][-1]
    assert datetime.fromisoformat(newest) <= wire.now - timedelta(minutes=3)
    assert "error" in raw.get(f"{path}?metricnames=RequestLatency", "2024-02-01")  # an endpoint has it, no deployment


def test_a_role_is_told_and_what_it_has_not_is_refused(raw: RawClient, wire: WireServer) -> None:
    wire.seed.cluster("cpu")
    wire.role = "AzureML Data Scientist"
    (told,) = raw.get("providers/Microsoft.Authorization/permissions", "2022-04-01")["value"]
    assert "Microsoft.MachineLearningServices/workspaces/computes/*/write" in told["notActions"]
    assert raw.get("computes/cpu")["name"] == "cpu"
    refused = raw.send("DELETE", "computes/cpu?api-version=2024-01-01-preview")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "AuthorizationFailed")
    assert "workspaces/computes/delete" in refused.json()["error"]["message"]
    assert raw.send("POST", "jobs/nobody/cancel?api-version=2024-01-01-preview").status_code == 404
    wire.role = "Reader"
    assert raw.send("POST", "jobs/nobody/cancel?api-version=2024-01-01-preview").status_code == 403
