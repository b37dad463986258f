"""Jobs of Azure ML as footplate reads them over a socket: lists, one job, trials, cancel, archive."""

from __future__ import annotations

import asyncio
import gzip
import re

import pytest
from tests.wire import JobPlan, faults

from footplate import settings
from footplate.azure.list_details import MOST_METRICS
from footplate.workspace import (
    Conflict,
    Invalid,
    JobFilter,
    NotAllowed,
    NotFound,
    NotSignedIn,
    Throttled,
    Unexpected,
    Unreachable,
)
from footplate.workspace.open import open_workspace
from footplate.workspace.read_only import read_only


async def listed(workspace, matching=None):
    return [job async for page in workspace.jobs(matching or JobFilter()) for job in page]


def paths(wire, method="GET"):
    return [seen.path.rpartition("/workspaces/ws")[2] for seen in wire.requests if seen.method == method]


def lists(wire):
    """The statuses of the answers to the list of jobs."""
    return [seen.status for seen in wire.requests if seen.path.endswith("/jobs")]


async def test_a_thousand_jobs_take_ten_requests_and_come_newest_first(wire, azure):
    wire.seed.jobs(1000)
    jobs = await listed(azure)
    assert [job.name for job in jobs] == [f"seed_{number:05d}" for number in range(1000, 0, -1)]
    asked = paths(wire)
    assert [path for path in asked if path == "/jobs"] == ["/jobs"] * 10
    assert azure.reads_left == 249
    # Beside the list, which is counted: the address of run history, a request to it a page, and the metric of a few.
    assert [path.rpartition("/")[2] for path in paths(wire, "POST")] == ["batchrundata"] * 10
    assert sorted({path.rpartition("/")[2] for path in asked} - {"jobs"}) == ["", "discovery", "get"]
    assert [asked.count(path) for path in ("", "/discovery")] == [1, 1]
    assert sum(path.endswith("/runs/get") for path in asked) <= MOST_METRICS
    assert {job.type for job in jobs} == {"command"}
    assert {job.compute for job in jobs} == {"cpu", "gpu"}


async def test_whoever_reads_one_page_asks_for_one(wire, azure):
    wire.seed.jobs(1000)
    async for page in azure.jobs(JobFilter()):
        assert len(page) == 100
        break
    assert paths(wire).count("/jobs") == len(paths(wire, "POST")) == 1


async def test_jobs_are_filtered_by_words_status_and_archive(wire, azure):
    wire.seed.jobs(60)
    wire.seed.job("hidden", age=1)
    await azure.archive("hidden")
    names = {job.name for job in await listed(azure)}
    assert "hidden" not in names
    assert "hidden" in {job.name for job in await listed(azure, JobFilter(archived=True))}
    failed = await listed(azure, JobFilter(status=("failed",)))
    assert failed
    assert {job.status for job in failed} == {"Failed"}
    await azure.restore("hidden")
    assert "hidden" in {job.name for job in await listed(azure)}


async def test_one_strange_item_does_not_end_the_list(wire, azure):
    wire.seed.jobs(5)
    strange = [
        None,
        3,
        {},
        {"name": "new", "properties": {"jobType": "Quantum", "status": "Entangled"}},
        {"name": "bare"},
    ]
    body = {"value": [*wire.state.jobs.values(), *strange]}
    wire.faults.add("GET", "/jobs", faults.Fault(200, body))
    jobs = await listed(azure)
    assert [(job.name, job.type, job.status) for job in jobs[5:]] == [
        ("new", "Quantum", "Entangled"),
        ("bare", "", "Unknown"),
    ]


async def test_a_packed_answer_is_unpacked(wire, azure):
    packed = gzip.compress(b'{"value": [{"name": "wren"}]}')
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    wire.faults.add("GET", "/jobs", faults.Fault(200, packed, headers))
    assert [job.name for job in await listed(azure)] == ["wren"]


async def test_a_list_that_leads_to_another_host_is_not_followed(wire, azure):
    wire.faults.add("GET", "/jobs", faults.Fault(200, {"value": [], "nextLink": "https://evil.example/jobs"}))
    with pytest.raises(Exception, match=r"goes on at another host, evil\.example"):
        await listed(azure)


async def test_a_job_has_start_end_and_error_from_its_run(wire, azure):
    wire.seed.job("wren", "Failed", took=600)
    job = await azure.job("wren")
    assert (job.status, job.seconds()) == ("Failed", 600.0)
    assert "CUDA out of memory" in job.error
    assert sorted(set(paths(wire))) == sorted({"/jobs/wren", "/runs/wren/details", "", "/discovery"} & set(paths(wire)))
    wire.requests.clear()
    await azure.job("wren")
    assert sorted(paths(wire)) == ["/jobs/wren", "/runs/wren/details"]


async def test_a_job_that_is_not_there_is_not_found(wire, azure):
    wire.seed.job("wren")
    for act in (azure.job, azure.cancel, azure.archive, azure.children, azure.log_files, azure.metrics, azure.outputs):
        with pytest.raises(NotFound, match="'nobody'"):
            await act("nobody")
    with pytest.raises(NotFound):
        await azure.read_log("nobody", "user_logs/std_log.txt", 0, 10)


async def test_a_job_is_shown_though_run_history_is_down(wire, azure):
    wire.seed.job("wren")
    wire.faults.add("GET", "/details", faults.fail(503), times=None)
    job = await azure.job("wren")
    assert job.status == "Completed"
    assert "Run history does not answer" in job.note


async def test_a_sweep_names_its_best_trial_and_its_trials_have_their_values(wire, azure):
    wire.seed.sweep("sweep", trials=4, tags={"owner": "me"})
    assert (await azure.job("sweep")).best_child is None
    wire.advance(600)
    sweep = await azure.job("sweep")
    assert (sweep.status, sweep.type, dict(sweep.tags)) == ("Completed", "sweep", {"owner": "me"})
    assert (sweep.primary_metric, sweep.goal) == ("best_val_acc", "Maximize")
    assert sweep.headline == ("best_val_acc", max(job.metric for job in await azure.children("sweep")))
    trials = {job.name: job for job in await azure.children("sweep")}
    assert sorted(trials) == [f"sweep_{number}" for number in range(4)]
    assert sweep.best_child in trials
    for trial in trials.values():
        assert set(trial.parameters) == {"learning_rate", "batch_size"}
        assert (trial.parent, trial.status, trial.experiment) == ("sweep", "Completed", "birds")
        assert trial.document()["parameters"] == dict(trial.parameters)
        alone = await azure.job(trial.name)
        assert trial.studio_url == alone.studio_url != sweep.studio_url
        assert (dict(alone.parameters), dict(alone.tags)) == (dict(trial.parameters), {})
    assert "best_child" not in trials["sweep_0"].document()


@pytest.mark.parametrize(("goal", "best"), [("Maximize", 0.99), ("Minimize", 0.2)])
async def test_a_trials_metric_is_its_best_value_and_not_its_last(wire, azure, goal, best):
    wire.seed.sweep("sweep", trials=2, at_once=2)["properties"]["objective"]["goal"] = goal
    wire.advance(5)
    assert [trial.metric for trial in await azure.children("sweep")] == [None, None]
    wire.advance(20)
    assert {trial.status for trial in await azure.children("sweep")} == {"Running"}
    for step, value in enumerate((0.3, 0.99, float("nan"), 0.2, 0.4)):
        wire.life.log_metric("sweep_0", "best_val_acc", value, step)
    found = {trial.name: trial.metric for trial in await azure.children("sweep")}
    assert found["sweep_0"] == best
    wire.advance(600)
    await azure.children("sweep")
    asked = len(wire.requests)
    await azure.children("sweep")  # of what has ended nothing is asked again
    assert [seen.path.rpartition("/")[2] for seen in wire.requests[asked:]] == ["sweep", "children"]
    wire.faults.add("GET", "/metrics/get-history", faults.fail(503), times=None)
    assert len(await azure.children("sweep")) == 2


async def test_more_children_than_a_page_are_all_read(wire, azure):
    wire.seed.sweep("sweep", trials=130, at_once=130)
    wire.advance(600)
    assert len(await azure.children("sweep")) == 130


async def test_cancel_asks_once_and_ends_the_job(wire, azure):
    wire.seed.submit("long")
    wire.advance(30)
    assert (await azure.job("long")).status == "Running"
    assert (await azure.cancel("long")).status == "CancelRequested"
    assert paths(wire, "POST") == ["/jobs/long/cancel"]
    wire.advance(60)
    assert (await azure.job("long")).status == "Canceled"
    assert (await azure.cancel("long")).status == "Canceled"
    assert paths(wire, "POST") == ["/jobs/long/cancel"]
    wire.seed.job("done")
    with pytest.raises(Conflict, match="it is Completed"):
        await azure.cancel("done")


async def test_what_footplate_cannot_do_on_azure_yet_is_said_and_nothing_is_sent(wire, azure):
    acts = {
        "delete_job": lambda: azure.delete_job("x"),
        "delete_model": lambda: azure.delete_model("m:1"),
        "start_endpoint": lambda: azure.start_endpoint("birds"),
        "usage": lambda: azure.usage("x"),
        "rehearse": lambda: azure.rehearse("x", "preempt"),
    }
    assert {*acts, "demo"} == set(azure.capabilities)
    for name, act in acts.items():
        with pytest.raises(Invalid) as refused:
            await act()
        assert refused.value.sentence == azure.capabilities[name]
    assert wire.requests == []


async def test_why_a_job_waits_is_told_by_the_service_or_its_cluster(wire, azure):
    wire.seed.cluster("gpu", "Standard_NC4as_T4_v3", high=2)
    compute = {"computeId": f"{wire.state.ws}/computes/gpu"}
    wire.seed.submit("holds", resources={"instanceCount": 2}, **compute)
    wire.seed.submit("waits", **compute)
    wire.seed.submit("never", resources={"instanceCount": 8}, **compute)
    wire.advance(14)
    assert (await azure.job("waits")).note == "Waits for 1 node of gpu: 0 of 2 run jobs, the cluster is Resizing."
    assert (await azure.job("never")).note == "Waits for 8 nodes of gpu, which has 2 at most: it waits for good."
    assert paths(wire).count("/computes/gpu") == 1  # asked for once, however many wait and look
    wire.seed.job("anywhere", "Queued", resources={"instanceCount": 2, "instanceType": "Standard_DS3_v2"})
    assert (await azure.job("anywhere")).note == "Waits for 2 nodes of serverless Standard_DS3_v2."
    assert sum(path.startswith("/computes/") for path in paths(wire)) == 1
    wire.state.runs["waits"]["queueingInfo"] = {"code": "Quota", "message": "It is the 3rd in the queue."}
    job = await azure.job("waits")
    assert (job.status, job.note) == ("Queued", "It is the 3rd in the queue.")
    assert [(stage.name, stage.ended) for stage in job.stages] == [("Submitted", None)]
    wire.advance(200)
    holds = await azure.job("holds")
    assert [stage.name for stage in holds.stages] == ["Submitted", "Running"]
    assert (holds.stages[0].ended, holds.stages[1].started, holds.stages[1].ended) == (
        holds.started,
        holds.started,
        holds.ended,
    )


async def test_while_its_image_is_built_a_job_says_so_and_that_log_comes_first(wire, azure):
    wire.plans["new"] = JobPlan(image_build=600)
    wire.seed.submit("new")
    wire.advance(30)
    job = await azure.job("new")
    assert (job.status, job.note) == ("Preparing", "Its image is being built: azureml-logs/20_image_build_log.txt")
    assert (await azure.log_files("new"))[0].path == "azureml-logs/20_image_build_log.txt"
    wire.advance(700)
    assert (await azure.job("new")).note == ""


async def test_a_display_name_and_tags_are_changed_as_the_sdk_changes_them(wire, azure):
    from tests.wire.client import real_client

    wire.seed.job("ours", tags={"owner": "me", "old": "x"})
    wire.seed.job("theirs", tags={"owner": "me", "old": "x"})
    job = await azure.update_job("ours", display_name="birds [b]", tags={"owner": "you", "old": None, "new": "1"})
    assert (job.display_name, dict(job.tags)) == ("birds [b]", {"owner": "you", "new": "1"})

    def by_sdk():
        with real_client(wire) as ml:
            ml.jobs.update("theirs", display_name="birds [b]", tags={"owner": "you", "new": "1"})

    await asyncio.to_thread(by_sdk)
    ours, *removal, theirs = [seen for seen in wire.requests if seen.method == "PATCH"]
    assert (ours.body, ours.path.replace("ours", "theirs")) == (theirs.body, theirs.path)
    assert [seen.body for seen in removal] == [{"tagsToModify": {}, "tagsToDelete": ["old"]}]
    for changes in ({"display_name": " "}, {"tags": {"": "x"}}, {"tags": {"_aml_system_x": None}}):
        with pytest.raises(Invalid):
            await azure.update_job("ours", **changes)
    with pytest.raises(NotFound):
        await azure.update_job("nobody", tags={"a": "b"})


async def test_services_have_their_links_while_the_job_runs(wire, azure):
    services = {"lab": {"jobServiceType": "JupyterLab"}, "shell": {"jobServiceType": "SSH"}}
    wire.seed.submit("plain")
    wire.seed.submit("served", services=services)
    assert await azure.services("plain") == ()
    assert [(service.name, service.status, service.url) for service in await azure.services("served")] == [
        ("lab", "Unavailable", ""),
        ("shell", "Unavailable", ""),
    ]
    wire.advance(30)
    lab, shell = await azure.services("served")
    assert (lab.type, lab.status, lab.url) == (
        "JupyterLab",
        "Running",
        "https://ml-served.eastus2.instances.azureml.ms/lab",
    )
    assert shell.type == "SSH"
    assert (await azure.job("served")).studio_url.startswith("https://ml.azure.com/runs/served?wsid=/subscriptions/")


async def test_environments_and_datastores_are_listed_without_secrets(wire, azure):
    wire.seed.environment("torch-gpu", "3")
    wire.seed.environment("torch-gpu", "12")
    found = {one.name: one for one in await azure.environments()}
    assert found["torch-gpu"].version == "12"
    default, artifacts = await azure.datastores()
    assert (default.name, default.type, default.is_default) == ("workspaceblobstore", "AzureBlob", True)
    assert default.location == f"https://acct.blob.{wire.storage_endpoint}/azureml-blobstore-1"
    assert (artifacts.name, artifacts.is_default) == ("workspaceartifactstore", False)
    assert not any("listSecrets" in seen.path for seen in wire.requests)


async def test_a_short_retry_after_is_waited_for_and_a_long_one_told(wire, azure):
    wire.seed.jobs(3)
    wire.faults.add("GET", "/jobs", faults.fail(429, retry_after=1))
    assert len(await listed(azure)) == 3
    assert lists(wire) == [429, 200]
    wire.faults.add("GET", "/jobs", faults.fail(429, retry_after=17), times=None)
    with pytest.raises(Throttled, match="Next try in 17 seconds") as refused:
        await listed(azure)
    assert refused.value.retry_after == 17
    assert lists(wire) == [429, 200, 429]
    asked = len(wire.requests)
    with pytest.raises(Throttled) as again:  # nothing is asked meanwhile, whoever asks
        await azure.clusters()
    assert 15 < again.value.retry_after < 17
    assert len(wire.requests) == asked


async def test_failures_come_as_sentences(wire, azure):
    wire.seed.jobs(1)
    for fault, kind, words in (
        (faults.fail("role"), NotAllowed, "You lack the permission"),
        (faults.fail(503), Unreachable, "answered 503"),
        (faults.fail("html"), Exception, "web page where JSON was due"),
        (faults.cut(10), Unreachable, "cannot be reached"),
        (faults.Fault(307, b"", {"Location": "https://evil.example/jobs"}), Unexpected, "answered 307"),
    ):
        wire.faults.clear()
        wire.faults.add("GET", "/jobs", fault, times=None)
        with pytest.raises(kind, match=words):
            await listed(azure)
    wire.faults.clear()
    wire.faults.add("GET", "/jobs", faults.cut(10), times=1)
    assert len(await listed(azure)) == 1


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("subscription_id", "no such subscription"),
        ("resource_group", "no such resource group"),
        ("workspace_name", "no Azure ML workspace 'wrong'"),
    ],
)
async def test_a_wrong_place_is_told_by_the_part_that_is_wrong(wire, config, key, words):
    text = re.sub(rf'^{key} = ".*"$', f'{key} = "wrong"', config.read_text(), flags=re.M)
    config.write_text(text)
    workspace = open_workspace("wire", settings.load(config))
    with pytest.raises(NotFound, match=words) as refused:
        await listed(workspace)
    assert key in refused.value.next_step
    await workspace.close()


async def test_a_server_that_is_gone_or_not_trusted_is_a_sentence(wire, config, tmp_path):
    text = config.read_text()
    for before, after, words in (
        (f":{wire.port}", ":1", "management.localhost cannot be reached"),
        ("https://management.localhost", "https://management.invalid", "no host management.invalid"),
        ("https://management.localhost", "https://nobody.nowhere.localhost", "for another host"),
        (f'ca_file = "{wire.ca_file}"', "", "certificate of management.localhost is not trusted"),
    ):
        config.write_text(text.replace(before, after))
        workspace = open_workspace("wire", settings.load(config))
        with pytest.raises(Unreachable, match=words):
            await listed(workspace)
        await workspace.close()


async def test_a_refused_token_is_replaced_where_there_is_another(wire, azure, monkeypatch):
    wire.seed.jobs(1)
    assert len(await listed(azure)) == 1
    monkeypatch.setenv("FOOTPLATE_WIRE_TOKEN", wire.tokens.issue())
    wire.tokens.revoke(wire.token)
    assert len(await listed(azure)) == 1
    assert lists(wire) == [200, 401, 200]
    monkeypatch.setenv("FOOTPLATE_WIRE_TOKEN", "")
    wire.faults.add("GET", "/jobs", faults.fail("token"), times=None)
    with pytest.raises(NotSignedIn):
        await listed(azure)


async def test_a_claims_challenge_gets_a_token_made_for_it(wire, azure):
    from azure.core.credentials import AccessTokenInfo

    asked = []

    class Source:
        name = "a test"

        def token(self, scope, claims):
            asked.append((scope, claims))
            return AccessTokenInfo(wire.tokens.issue(), 4_000_000_000)

        def close(self):
            pass

    parts = await azure._parts()
    parts.client.credential.use(Source())
    wire.seed.jobs(1)
    wire.faults.add("GET", "/jobs", faults.fail("claims"))
    assert len(await listed(azure)) == 1
    assert [claims for _, claims in asked] == [None, '{"access_token":{"nbf":{"essential":true,"value":"1700000000"}}}']
    assert azure.signed_in_by == "a test"


async def test_a_read_only_azure_workspace_refuses_to_cancel(wire, azure):
    wire.seed.submit("long")
    with pytest.raises(NotAllowed):
        await read_only(azure).cancel("long")
    assert not wire.requests


async def test_the_console_looks_less_often_when_few_reads_are_left(wire, azure):
    assert (azure.poll_seconds, azure.reads_left, azure.place, azure.signed_in_by) == (2.0, None, "AZURE", "")
    wire.seed.jobs(1)
    await listed(azure)
    parts = await azure._parts()
    assert azure.reads_left == parts.client.reads_left
    for left, seconds in ((240, 2.0), (80, 6.0), (10, 20.0)):
        parts.client.reads_left = left
        assert azure.poll_seconds == seconds
