"""What footplate holds to be true of Azure ML, and on what ground: one table, which the docs and `doctor --azure` read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Basis = Literal["recorded", "documented", "assumed"]
"""`recorded`: seen in an answer of the live service that was published; `documented`: Microsoft says so, or its SDK relies
on it; `assumed`: neither."""


@dataclass(frozen=True)
class Claim:
    """One sentence about the service, its basis, and where that is to be found. `id` never changes once it was published.

    `why_not` says why `footplate doctor --azure`, which only reads, cannot try it; empty where it does.
    """

    id: str
    text: str
    basis: Basis
    source: str
    why_not: str = ""


_WRITES = "it takes a change to the workspace"
_SDK = "azure-ai-ml 1.35"
_RECORDED = "recorded tests of azure-ai-ml"

CLAIMS: tuple[Claim, ...] = (
    # The resource manager
    Claim(
        "rate-header",
        "Each answer to a read tells in x-ms-ratelimit-remaining-subscription-reads how many reads are left.",
        "recorded",
        _RECORDED,
    ),
    Claim(
        "rate-depth",
        "No more than 250 reads of a principal, subscription and region are in the bucket, refilled 25 a second.",
        "documented",
        "Azure Resource Manager: request limits and throttling",
    ),
    Claim(
        "correlation",
        "Each answer has x-ms-correlation-request-id, which Microsoft's support asks for.",
        "documented",
        "Azure Resource Manager REST: common response headers",
    ),
    Claim(
        "not-found-code",
        "A job that is not there is answered with 404, and the code is UserError or names what is missing.",
        "assumed",
        "as our local server has it",
    ),
    Claim(
        "discovery",
        "The workspace's discoveryUrl leads to a document whose api is the address of run history and MLflow.",
        "documented",
        f"{_SDK}: reads it",
    ),
    Claim(
        "history-uncounted",
        "Requests to run history are not counted against the resource manager's bucket: their answers tell of none.",
        "assumed",
        "they go to another host",
    ),
    Claim(
        "operation-address",
        "A long-running operation is followed at Azure-AsyncOperation; its answer has no Retry-After.",
        "recorded",
        _RECORDED,
        _WRITES,
    ),
    # Jobs
    Claim(
        "jobs-newest-first",
        "The list of jobs comes newest first by the time they were created.",
        "assumed",
        "always seen so, documented nowhere; where a page comes otherwise, the local index is not used for it",
    ),
    Claim(
        "jobs-page",
        "A page of the list of jobs that is not the last holds at least 10 jobs, and its nextLink stays on the same host.",
        "assumed",
        "100 a page in our local server; no recording holds a second page",
    ),
    Claim(
        "jobs-roots",
        "The list of jobs leaves out the trials of sweeps and the steps of pipelines.",
        "assumed",
        "no recording holds a list with a sweep",
    ),
    Claim(
        "job-statuses",
        "A job's status is one that footplate knows.",
        "documented",
        "Azure ML REST: JobStatus",
    ),
    Claim(
        "job-kinds",
        "A job's jobType is Command, Sweep, Pipeline, AutoML, Spark or one of the few others that the REST reference names.",
        "documented",
        "Azure ML REST: JobType",
    ),
    Claim(
        "job-outputs-default",
        "A command job's default output lies in the datastore workspaceartifactstore under ExperimentRun/dcid.NAME.",
        "recorded",
        _RECORDED,
    ),
    Claim(
        "system-tags",
        "Tags that begin with _aml_system_ are the service's own, and hidden.",
        "recorded",
        _RECORDED,
    ),
    Claim(
        "best-child",
        "A sweep that has ended names its best trial in the property best_child_run_id.",
        "documented",
        "Azure ML: tune hyperparameters; recorded: it is absent while a sweep runs",
    ),
    Claim(
        "finished-stays",
        "What an ended job's record says of status, command, compute and inputs changes no more.",
        "assumed",
        "the local index keeps ended jobs for good, and reads all of them again now and then",
        "one look tells nothing of a change",
    ),
    Claim(
        "job-changes",
        "Display name and tags are changed by PATCH of the job's run, which adds tags; PATCH of its tags removes some.",
        "documented",
        f"{_SDK}: jobs.update, and its client of run history",
        _WRITES,
    ),
    Claim(
        "job-waits",
        "Run history says in queueingInfo.message why a job waits, where it says anything.",
        "documented",
        f"{_SDK}: its client of run history",
        "it takes a job that waits",
    ),
    Claim(
        "job-score",
        "The property score of a sweep is the best value of its primary metric.",
        "assumed",
        "seen in answers of older interfaces",
        "it takes a sweep that has ended",
    ),
    Claim(
        "output-paths",
        "An output whose path has the job's own name in it was placed by the service, and another job gets another place.",
        "assumed",
        "Azure ML: the default path of an output is azureml/NAME/OUTPUT in workspaceblobstore",
        "it takes a job with a named output",
    ),
    Claim(
        "code-again",
        "A job starts again with the code of another by its whole id, with nothing uploaded.",
        "documented",
        f"{_SDK}: code of a job file, tried on our local server",
        _WRITES,
    ),
    Claim(
        "file-unchanged",
        "A listed file's ETag, sent as If-Match, is refused with 412 once the file is another.",
        "documented",
        "Azure Storage: conditional headers",
        "it takes a change to a file",
    ),
    Claim(
        "archive",
        "A job is archived by PATCH of its run with hidden: true, as the SDK does it.",
        "documented",
        _SDK,
        _WRITES,
    ),
    Claim(
        "cancel",
        "A job is cancelled by POST to its cancel, which is answered with 202 and an operation.",
        "documented",
        f"{_SDK}: begin_cancel",
        _WRITES,
    ),
    # Runs, logs, metrics
    Claim(
        "run-details",
        "Run history's details of a job have its status, its times, and logFiles: a signed address for each path.",
        "documented",
        f"{_SDK}: jobs.stream reads them",
    ),
    Claim(
        "run-batch",
        "Run history's batchrundata tells of many jobs in one request, each with its start, end and error.",
        "documented",
        f"{_SDK}: its client of run history",
        "it is a POST, though one that only reads",
    ),
    Claim(
        "log-paths",
        "A command job's own output is user_logs/std_log.txt, or user_logs/std_log_process_N.txt for each rank.",
        "documented",
        f"{_SDK}: jobs.stream looks for these",
    ),
    Claim(
        "log-range",
        "A signed log address is read by byte range without a token: 206, and Content-Range tells the length.",
        "documented",
        "Azure Storage: Get Blob",
    ),
    Claim(
        "log-address-life",
        "A log's signed address is good for eight hours or more from the time it was signed.",
        "recorded",
        "eight hours and ten minutes in public test data",
    ),
    Claim(
        "log-address-fresh",
        "Each request of a run's details gives addresses that are signed anew.",
        "assumed",
        "an old address is replaced by asking for the details again",
    ),
    Claim(
        "mlflow",
        "MLflow's REST API below the same api address answers runs/get with the token of the resource manager.",
        "documented",
        "azureml-mlflow: the same address and token",
    ),
    # Clusters
    Claim(
        "compute-kinds",
        "The list of computes also holds compute instances and attached Kubernetes, told by computeType.",
        "documented",
        "Azure ML REST: Compute",
    ),
    Claim(
        "node-counts",
        "A cluster's nodeStateCounts has a count for each state of its nodes, or is null while it is being made.",
        "recorded",
        _RECORDED,
    ),
    Claim(
        "node-states",
        "listNodes gives nodeId, nodeState and, where one runs, the job of each node (runId).",
        "documented",
        "Azure ML REST: AmlCompute nodes",
        "listNodes is a POST, and this probe only sends GET",
    ),
    Claim(
        "sizes",
        "The sizes of a region are listed with vCPUs, gpus and memoryGB.",
        "documented",
        "Azure ML REST: virtual machine sizes",
    ),
    Claim(
        "usages",
        "Cores in use are listed by family with a limit, low priority apart from the dedicated families.",
        "documented",
        "Azure ML REST: usages",
    ),
    Claim(
        "cluster-change",
        "A cluster is changed by PUT of all that can be set of it, as the SDK does it; what was fixed when it was made stays.",
        "documented",
        f"{_SDK}: compute.begin_update",
        _WRITES,
    ),
    Claim(
        "quota-families",
        "A size's family is named among the usages as among the sizes, but for case and blanks; low priority has one pool.",
        "assumed",
        "Azure ML: manage quotas",
    ),
    Claim(
        "quota-error",
        "A cluster beyond the quota is refused by the operation's end, with ClusterCoreQuotaReached and the figures.",
        "assumed",
        "the code is named in Microsoft's forum, the wording is our local server's",
        _WRITES,
    ),
    # Data and models
    Claim(
        "datastores",
        "A workspace has the datastore workspaceblobstore, and it is the default one.",
        "recorded",
        _RECORDED,
    ),
    Claim(
        "model-fields",
        "A model's version has modelUri and modelType, and jobName where a job made it.",
        "documented",
        "Azure ML REST: model versions",
    ),
    # Endpoints
    Claim(
        "traffic-sum",
        "An endpoint's traffic sums to 100, or to 0.",
        "documented",
        "Azure ML: safe rollout for online endpoints",
    ),
    Claim(
        "scoring-uri",
        "An endpoint has no scoringUri until it was made, and then one that begins with https.",
        "recorded",
        _RECORDED,
    ),
    Claim(
        "provisioning-states",
        "An endpoint's provisioningState is one of Creating, Updating, Deleting, Succeeded, Failed, Canceled.",
        "documented",
        "Azure ML REST: EndpointProvisioningState",
    ),
    Claim(
        "deployment-header",
        "A scoring request with azureml-model-deployment goes to that deployment, whatever its share of the traffic.",
        "documented",
        "Azure ML: safe rollout for online endpoints",
        "it takes a request to a live model",
    ),
    Claim(
        "traffic-patch",
        "PATCH of an endpoint with 2022-02-01-preview changes its traffic or mirrored traffic, and nothing else.",
        "documented",
        "Azure ML REST 2022-02-01-preview: PartialOnlineEndpoint, which azureml-mlflow sends",
        _WRITES,
    ),
    Claim(
        "traffic-patch-rest",
        "A PATCH that names each deployment's share leaves no other share in force.",
        "assumed",
        "as our local server has it; the answer is read again, and another one is told",
        _WRITES,
    ),
    Claim(
        "mirror-rule",
        "Requests are mirrored to one deployment without live traffic, 50 per cent of them at most; a share of 0 ends it.",
        "documented",
        "Azure ML: safe rollout for online endpoints",
        _WRITES,
    ),
    Claim(
        "scale-patch",
        "PATCH of a deployment with sku.capacity changes its number of instances, and nothing else.",
        "documented",
        "Azure ML REST: online deployments, update",
        _WRITES,
    ),
    Claim(
        "key-anew",
        "regenerateKeys without a keyValue makes a new key; the keys are read again, and one that is the same is told.",
        "assumed",
        "Azure ML REST: RegenerateEndpointKeysRequest, whose keyValue is optional",
        _WRITES,
    ),
    Claim(
        "deployment-figures",
        "Azure Monitor has latency percentiles, CPU, memory and GPU of each deployment by minutes, some minutes late.",
        "documented",
        "Azure Monitor: supported metrics of workspaces/onlineEndpoints/deployments",
        "it takes a deployment that had requests",
    ),
    Claim(
        "deployment-requests",
        "RequestsPerMinute split by envoy_response_code sums to all requests; codes from 400 are the errors.",
        "assumed",
        "Azure Monitor: that dimension is documented, not what an average over it means",
        "it takes a deployment that had requests",
    ),
    Claim(
        "score-image",
        "The image mcr.microsoft.com/azureml/minimal-py312-inference:latest is there to deploy on.",
        "assumed",
        "Azure ML: prebuilt inference images, of which this one is named after its Python",
        "it takes a deployment",
    ),
    # Who may do what
    Claim(
        "permissions",
        "The workspace's providers/Microsoft.Authorization/permissions tells the actions of whoever is signed in.",
        "documented",
        "Azure RBAC REST: permissions, list for resource",
    ),
    # Connecting
    Claim(
        "subscriptions",
        "GET /subscriptions lists what the principal sees in the tenant of its token.",
        "documented",
        "Azure Resource Manager REST: subscriptions",
    ),
    Claim(
        "workspace-list",
        "All workspaces of a subscription are listed in one place, whatever their resource group.",
        "documented",
        "Azure ML REST: workspaces, list by subscription",
    ),
)
BY_ID = {claim.id: claim for claim in CLAIMS}
