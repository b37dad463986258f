"""Machine sizes of a region, and the quota of cores by family."""

from __future__ import annotations

from tests.wire import errors
from tests.wire.http import SUB, Call, Refusal, Reply, Routes
from tests.wire.state import Body, State

routes = Routes()
_PLACE = SUB + r"/providers/Microsoft\.MachineLearningServices/locations/(?P<location>[^/]+)"


def check_size(state: State, size: str) -> None:
    """Refuse a machine size that the region has not."""
    if size.lower() not in {name.lower() for name in state.sizes}:
        raise Refusal(
            400,
            "BadRequest",
            f"The specified Azure ML Compute VM size {size} is not supported in the region {state.location}.",
            details=[errors.detail("InvalidVmSize", f"STANDARD size {size} is not available in {state.location}.")],
            inner={"code": "BadArgument", "innerError": None},
        )


def size_of(state: State, name: str | None) -> Body | None:
    """A machine size by name."""
    return next((size for key, size in state.sizes.items() if key.lower() == str(name).lower()), None)


def quota_error(state: State, wanted: Body) -> Body | None:
    """Why a cluster is too big for the quota of its family, if it is."""
    size = size_of(state, wanted.get("vmSize"))
    if size is None:
        return None
    low = str(wanted.get("vmPriority")).lower() == "lowpriority"
    family = "Total Cluster Low Priority Regional vCPUs" if low else size["family"]
    usage = state.quota.get(family)
    cores = int(size["vCPUs"]) * int((wanted.get("scaleSettings") or {}).get("maxNodeCount") or 1)
    if usage is None or usage["currentValue"] + cores <= usage["limit"]:
        return None
    text = (
        f"Operation could not be completed as it results in exceeding approved {family} Cores quota. "
        f"Additional details - Deployment Model: Resource Manager, Location: {state.location}, "
        f"Current Limit: {usage['limit']}, Current Usage: {usage['currentValue']}, "
        f"Additional Required: {cores}, (Minimum) New Limit Required: {usage['currentValue'] + cores}."
    )
    return {"code": "ClusterCoreQuotaReached", "message": text, "details": []}


@routes.on("GET", _PLACE + "/usages")
def usages(call: Call) -> Reply:
    """Cores in use and allowed, by family; low priority apart."""
    return Reply(body={"value": list(call.wire.state.quota.values())})


@routes.on("GET", _PLACE + "/quotas")
def quotas(call: Call) -> Reply:
    """What workspaces are allowed, by family."""
    kept = ("id", "type", "limit", "unit", "name", "amlWorkspaceLocation")
    value = [{key: row[key] for key in kept if key in row} for row in call.wire.state.quota.values()]
    return Reply(body={"value": value})


@routes.on("GET", _PLACE + "/vmSizes")
def vm_sizes(call: Call) -> Reply:
    """The machine sizes of a region."""
    return Reply(body={"value": list(call.wire.state.sizes.values())})


def size(name: str, family: str, cores: int, memory_gb: float, gpus: int = 0, *, low: bool = True) -> Body:
    """A machine size as the service lists it."""
    return {
        "name": name,
        "family": family,
        "vCPUs": cores,
        "gpus": gpus,
        "osVhdSizeMB": 1047552,
        "maxResourceVolumeMB": cores * 12288,
        "memoryGB": memory_gb,
        "lowPriorityCapable": low,
        "premiumIO": True,
        "estimatedVMPrices": None,
        "supportedComputeTypes": ["AmlCompute", "ComputeInstance"],
    }


def usage(state: State, family: str, used: int, limit: int, shown: str = "") -> Body:
    """A family's quota as the service lists it."""
    place = f"/subscriptions/{state.subscription_id}/providers/Microsoft.MachineLearningServices/locations"
    return {
        "id": f"{place}/{state.location}/quotas/{family}",
        "type": "Microsoft.MachineLearningServices/vmFamily/dedicatedCores/usages",
        "unit": "Count",
        "currentValue": used,
        "limit": limit,
        "name": {"value": family, "localizedValue": shown or family},
        "amlWorkspaceLocation": state.location,
    }
