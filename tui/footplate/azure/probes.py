"""How each claim about Azure ML is tried on a live workspace. What a probe says of what it saw names nothing of the user's."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from footplate.azure.claims import BY_ID
from footplate.azure.evidence import JOBS, PROVIDER, WORKSPACES, Evidence
from footplate.azure.reading import SYSTEM_TAGS, created, items, mapping, moment, text
from footplate.workspace.model import ACTIVE_STATUSES

_COMPUTES = _MODELS = "2023-08-01-preview"
_ENDPOINTS, _SUBSCRIPTIONS, _PERMISSIONS = "2022-02-01-preview", "2022-12-01", "2022-04-01"
_STATUSES = ACTIVE_STATUSES | {"Completed", "Failed", "Canceled", "NotResponding", "Paused", "Unknown", "Scheduled"}
_KINDS = frozenset(
    {"Command", "Sweep", "Pipeline", "AutoML", "Spark", "Labeling", "Base", "FineTuning", "Distillation"}
)
_COMPUTES_KNOWN = frozenset(
    {
        *("AmlCompute", "ComputeInstance", "Kubernetes", "AKS", "VirtualMachine", "HDInsight", "DataFactory"),
        *("Databricks", "DataLakeAnalytics", "SynapseSpark"),
    }
)
_STATES = frozenset({"Creating", "Updating", "Deleting", "Succeeded", "Failed", "Canceled"})
_LEFT = "x-ms-ratelimit-remaining-subscription-reads"
_BACKDATED_MINUTES = 15
"""An address is signed from a little before now, for clocks that differ."""
_SOME = 5
"""Jobs, endpoints or models of which a claim is tried."""


Seen = tuple[bool | None, str]
"""Whether it held (None: this workspace did not show it), and what was seen."""


def _inner(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(resource.get("properties"))


def _all(count: int, right: int, what: str) -> Seen:
    """Whether all of several are right; where there are none, nothing was seen."""
    return (right == count, f"{right} of {count} {what}") if count else (None, f"no {what} to look at")


Probe = Callable[[Evidence], Awaitable[Seen]]
PROBES: dict[str, Probe] = {}


def _tries(claim: str) -> Callable[[Probe], Probe]:
    """Make a function the probe of a claim."""
    assert claim in BY_ID, claim

    def keep(probe: Probe) -> Probe:
        PROBES[claim] = probe
        return probe

    return keep


# The resource manager


@_tries("rate-header")
async def _rate_header(seen: Evidence) -> Seen:
    headers = _small((await seen.answer("", WORKSPACES)).headers)
    return headers.get(_LEFT, "").isdecimal(), "there" if _LEFT in headers else "not there"


@_tries("rate-depth")
async def _rate_depth(seen: Evidence) -> Seen:
    left = _small((await seen.answer("", WORKSPACES)).headers).get(_LEFT, "")
    return (int(left) <= 250, f"{left} left") if left.isdecimal() else (None, "no header tells")


@_tries("correlation")
async def _correlation(seen: Evidence) -> Seen:
    there = "x-ms-correlation-request-id" in _small((await seen.answer("", WORKSPACES)).headers)
    return there, "there" if there else "not there"


@_tries("not-found-code")
async def _not_found_code(seen: Evidence) -> Seen:
    answer = await seen.answer(f"/jobs/footplate-doctor-{secrets.token_hex(6)}", JOBS)
    try:
        code = text(mapping(mapping(json.loads(answer.body)).get("error")).get("code"))
    except (ValueError, RecursionError):
        code = ""
    known = code == "UserError" or code.endswith("NotFound")
    return answer.status == 404 and known, f"{answer.status}, code {_word(code)}"


@_tries("discovery")
async def _discovery(seen: Evidence) -> Seen:
    address = await seen.api()
    return address.startswith("https://"), "an https address" if address else "no address"


@_tries("history-uncounted")
async def _history_uncounted(seen: Evidence) -> Seen:
    name, _ = await seen.run()
    if not name:
        return None, "no job with a run among the newest"
    told = _LEFT in _small((await seen.service("history/v1.0", f"/runs/{quote(name, safe='')}")).headers)
    return not told, "its answer tells of the bucket" if told else "its answer tells of no bucket"


# Jobs


@_tries("jobs-newest-first")
async def _newest_first(seen: Evidence) -> Seen:
    moments = [created(job) for job in await seen.jobs()]
    pairs = list(pairwise(moments))
    return _all(len(pairs), sum(first >= second for first, second in pairs), "neighbours in order")


@_tries("jobs-page")
async def _jobs_page(seen: Evidence) -> Seen:
    page = await seen.document("/jobs", JOBS, listViewType="ActiveOnly")
    following, count = text(page.get("nextLink")), len(items(page.get("value")))
    if not following:
        return None, f"{count} jobs, and no second page"
    same = urlsplit(following)[:2] == urlsplit(seen.client.cloud.resource_manager)[:2]
    return same and count >= 10, f"{count} jobs a page, nextLink on {'the same' if same else 'another'} host"


@_tries("jobs-roots")
async def _jobs_roots(seen: Evidence) -> Seen:
    jobs = await seen.jobs()
    parents = [text(job.get("name")) for job in jobs if _inner(job).get("jobType") in ("Sweep", "Pipeline")]
    inside = [name for name in (text(job.get("name")) for job in jobs) if _is_child(name, parents)]
    return (not inside, f"{len(parents)} parents, {len(inside)} children listed") if parents else (None, "no parents")


def _is_child(name: str, parents: Sequence[str]) -> bool:
    return any(name.startswith(f"{parent}_") and name.removeprefix(f"{parent}_").isdecimal() for parent in parents)


@_tries("job-statuses")
async def _job_statuses(seen: Evidence) -> Seen:
    return _known([text(_inner(job).get("status")) for job in await seen.jobs()], _STATUSES)


@_tries("job-kinds")
async def _job_kinds(seen: Evidence) -> Seen:
    return _known([text(_inner(job).get("jobType")) for job in await seen.jobs()], _KINDS)


@_tries("job-outputs-default")
async def _outputs_default(seen: Evidence) -> Seen:
    jobs = [job for job in await seen.jobs() if _inner(job).get("jobType") == "Command"]
    right = 0
    for job in jobs:
        uri = text(mapping(mapping(_inner(job).get("outputs")).get("default")).get("uri"))
        right += uri.rstrip("/").endswith(f"workspaceartifactstore/ExperimentRun/dcid.{text(job.get('name'))}")
    return _all(len(jobs), right, "command jobs")


@_tries("system-tags")
async def _system_tags(seen: Evidence) -> Seen:
    sweeps = [job for job in await seen.jobs() if _inner(job).get("jobType") == "Sweep"]
    tagged = sum(any(tag.startswith(SYSTEM_TAGS) for tag in mapping(_inner(job).get("tags"))) for job in sweeps)
    return _all(len(sweeps), tagged, "sweeps have such tags")


@_tries("best-child")
async def _best_child(seen: Evidence) -> Seen:
    ended = [job for job in await seen.jobs() if _inner(job).get("jobType") == "Sweep"]
    ended = [job for job in ended if _inner(job).get("status") == "Completed"]
    named = sum(bool(mapping(_inner(job).get("properties")).get("best_child_run_id")) for job in ended)
    return _all(len(ended), named, "completed sweeps")


# Runs, logs, metrics


@_tries("run-details")
async def _run_details(seen: Evidence) -> Seen:
    name, details = await seen.run()
    if not name:
        return None, "no job with a run among the newest"
    there = [key for key in ("status", "startTimeUtc", "logFiles") if key in details]
    return len(there) == 3, f"it has {', '.join(there) or 'none of these'}"


@_tries("log-paths")
async def _log_paths(seen: Evidence) -> Seen:
    paths = list(mapping((await seen.run())[1].get("logFiles")))
    own = [path for path in paths if path.startswith("user_logs/std_log") and path.endswith(".txt")]
    return (bool(own), f"{len(own)} of {len(paths)} log files") if paths else (None, "no log files among the newest")


async def _log_address(seen: Evidence) -> str:
    files = mapping((await seen.run())[1].get("logFiles"))
    return next((text(files[path]) for path in sorted(files, reverse=True)), "")


@_tries("log-range")
async def _log_range(seen: Evidence) -> Seen:
    if not (address := await _log_address(seen)):
        return None, "no log files among the newest"
    answer = await seen.client.download(address, {"Range": "bytes=0-0", "Accept-Encoding": "identity"})
    ranged = "content-range" in _small(answer.headers)
    code = _word(_small(answer.headers).get("x-ms-error-code", ""))
    if answer.status == 403:
        return None, f"storage refused: 403 {code}"
    return (
        answer.status in (206, 416) and ranged,
        f"{answer.status}, {'with' if ranged else 'without'} Content-Range",
    )


async def _log_address_times(seen: Evidence) -> tuple[datetime, datetime] | None:
    """From when to when a signed address is good; None where there is none that tells."""
    query = parse_qs(urlsplit(await _log_address(seen)).query)
    ends = moment(query.get("se", [""])[0])
    begins = moment(query.get("st", [""])[0]) or seen.told_at
    return None if ends is None else (begins, ends)


@_tries("log-address-life")
async def _log_address_life(seen: Evidence) -> Seen:
    if (times := await _log_address_times(seen)) is None:
        return None, "no signed address among the newest"
    hours = (times[1] - times[0]).total_seconds() / 3600
    return hours >= 8, f"good for {hours:.1f} hours"


@_tries("log-address-fresh")
async def _log_address_fresh(seen: Evidence) -> Seen:
    if (times := await _log_address_times(seen)) is None:
        return None, "no signed address among the newest"
    old = (seen.told_at - times[0]).total_seconds() / 60
    return old <= _BACKDATED_MINUTES, f"signed from {old:.0f} minutes before it was asked for"


@_tries("mlflow")
async def _mlflow(seen: Evidence) -> Seen:
    name, _ = await seen.run()
    if not name:
        return None, "no job with a run among the newest"
    answer = await seen.service("mlflow/v2.0", "/api/2.0/mlflow/runs/get", run_id=name, run_uuid=name)
    return answer.status == 200 and b'"run"' in answer.body, f"{answer.status}"


# Clusters


@_tries("compute-kinds")
async def _compute_kinds(seen: Evidence) -> Seen:
    listed = await seen.values("/computes", _COMPUTES)
    return _known([text(_inner(one).get("computeType")) for one in listed], _COMPUTES_KNOWN)


@_tries("node-counts")
async def _node_counts(seen: Evidence) -> Seen:
    clusters = [
        one for one in await seen.values("/computes", _COMPUTES) if _inner(one).get("computeType") == "AmlCompute"
    ]
    counts = [mapping(_inner(one).get("properties")).get("nodeStateCounts", ...) for one in clusters]
    right = sum(one is None or (isinstance(one, dict) and "runningNodeCount" in one) for one in counts)
    return _all(len(clusters), right, "clusters")


@_tries("sizes")
async def _sizes(seen: Evidence) -> Seen:
    sizes = await seen.regional("vmSizes")
    return _all(len(sizes), sum(all(key in one for key in ("vCPUs", "gpus", "memoryGB")) for one in sizes), "sizes")


@_tries("usages")
async def _usages(seen: Evidence) -> Seen:
    rows = await seen.regional("usages")
    whole = sum(all(key in row for key in ("currentValue", "limit", "name")) for row in rows)
    low = sum("lowpriority" in _plain(f"{row.get('type')} {mapping(row.get('name')).get('value')}") for row in rows)
    held, saw = _all(len(rows), whole, "rows with a value and a limit")
    return held and (low > 0), f"{saw}; {low} of low priority"


@_tries("quota-families")
async def _quota_families(seen: Evidence) -> Seen:
    rows = [text(mapping(row.get("name")).get("value")) for row in await seen.regional("usages")]
    families = {_plain(text(size.get("family"))) for size in await seen.regional("vmSizes")}
    pools = sum("lowpriority" in _plain(row) for row in rows)  # as their names are written in the usages
    held, saw = _all(len(families), len(families & {_plain(row) for row in rows}), "families of sizes")
    return held and pools == 1, f"{saw}; {pools} pools of low priority"


# Data and models


@_tries("datastores")
async def _datastores(seen: Evidence) -> Seen:
    listed = await seen.values("/datastores", WORKSPACES)
    blob = next((one for one in listed if one.get("name") == "workspaceblobstore"), None)
    if blob is None:
        return False, "it is not on the first page"
    default = _inner(blob).get("isDefault") is True
    return default, "it is the default one" if default else "another one is the default"


@_tries("model-fields")
async def _model_fields(seen: Evidence) -> Seen:
    versions: list[Mapping[str, Any]] = []
    for model in (await seen.values("/models", _MODELS))[:_SOME]:
        path = f"/models/{quote(text(model.get('name')), safe='')}/versions"
        versions += (await seen.values(path, _MODELS))[:1]
    right = sum(all(key in _inner(one) for key in ("modelUri", "modelType")) for one in versions)
    return _all(len(versions), right, "models")


# Endpoints


async def _endpoints(seen: Evidence) -> list[Mapping[str, Any]]:
    return [_inner(one) for one in await seen.values("/onlineEndpoints", _ENDPOINTS)]


@_tries("traffic-sum")
async def _traffic_sum(seen: Evidence) -> Seen:
    sums = [sum(mapping(one.get("traffic")).values()) for one in await _endpoints(seen)]
    return _all(len(sums), sum(one in (0, 100) for one in sums), "endpoints")


@_tries("scoring-uri")
async def _scoring_uri(seen: Evidence) -> Seen:
    made = [one for one in await _endpoints(seen) if one.get("provisioningState") == "Succeeded"]
    return _all(len(made), sum(text(one.get("scoringUri")).startswith("https://") for one in made), "endpoints")


@_tries("provisioning-states")
async def _provisioning_states(seen: Evidence) -> Seen:
    return _known([text(one.get("provisioningState")) for one in await _endpoints(seen)], _STATES)


@_tries("permissions")
async def _permissions(seen: Evidence) -> Seen:
    granted = await seen.values("/providers/Microsoft.Authorization/permissions", _PERMISSIONS)
    return _all(len(granted), sum(isinstance(one.get("actions"), list) for one in granted), "grants name actions")


# Connecting


@_tries("subscriptions")
async def _subscriptions(seen: Evidence) -> Seen:
    own = seen.client.place.subscription_id.lower()
    listed = await seen.values(f"{seen.client.cloud.resource_manager}/subscriptions", _SUBSCRIPTIONS)
    there = any(text(one.get("subscriptionId")).lower() == own for one in listed)
    return there, f"{len(listed)} on the first page, this one {'among them' if there else 'not among them'}"


@_tries("workspace-list")
async def _workspace_list(seen: Evidence) -> Seen:
    client = seen.client
    address = f"{client.cloud.resource_manager}{client.place.subscription_path}{PROVIDER}/workspaces"
    listed = await seen.values(address, WORKSPACES)
    own = client.place.path.lower()
    there = any(text(one.get("id")).lower() == own for one in listed)
    return there, f"{len(listed)} on the first page, this one {'among them' if there else 'not among them'}"


def _plain(family: str) -> str:
    return family.lower().replace(" ", "")


def _small(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _word(value: str) -> str:
    """A word of the service's own: one that could be anything else is not shown."""
    return value if value.isascii() and value.isalpha() and len(value) <= 40 else "(no plain word)"


def _known(values: Sequence[str], known: frozenset[str]) -> Seen:
    """Whether all of the words are known; those that are not are the service's, and shown."""
    if not values:
        return None, "none to look at"
    unknown = sorted({_word(value) for value in values if value not in known})
    seen = sorted({value for value in values if value in known})
    return not unknown, f"seen: {', '.join(seen)}" + (f"; unknown: {', '.join(unknown)}" if unknown else "")
