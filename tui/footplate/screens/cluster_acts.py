"""What is asked before a cluster is made, changed or deleted, and done then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from footplate.screens.choose import ChooseScreen, cluster_room
from footplate.screens.dialogs import ConfirmDialog, Field, FieldsDialog, Verdict
from footplate.widgets.virtual_table import Cell, Column, Row
from footplate.workspace import Cluster, ClusterSpec, Job, JobFilter, Size, WorkspaceError

if TYPE_CHECKING:
    from footplate.app import FootplateApp

_TIERS = ("Dedicated", "LowPriority")
_MOST_NAMED = 6


async def create(console: FootplateApp) -> None:
    """Ask for name, size, nodes, idle time and tier, saying what they come to, until the cluster is asked for or it is left."""
    if console.cannot("create_cluster"):
        return
    sizes = await console.attempt(console.workspace.sizes())
    if sizes is None:
        return
    known = {size.name: size for size in sizes}
    here = console.workspace.kind == "local"

    async def pick(now: str) -> str | None:
        return await console.push_screen_wait(ChooseScreen("Sizes", SIZE_COLUMNS, size_rows(sizes), chosen=now))

    values = {
        "name": "",
        "size": sizes[0].name if sizes else "",
        "least": "0",
        "most": "1",
        "idle": "120",
        "tier": _TIERS[0],
    }
    while True:
        fields = [
            Field("name", "Name", values["name"]),
            Field("size", "Size", values["size"], pick=pick),
            Field("least", "Nodes at least", values["least"]),
            Field("most", "Nodes at most", values["most"]),
            Field("idle", "Idle seconds", values["idle"]),
        ]
        if not here:
            fields.append(Field("tier", "Tier", values["tier"], _TIERS))
        answer = await console.push_screen_wait(
            FieldsDialog(
                f"New cluster in workspace {console.workspace_name}",
                "Nodes beyond the least go when they have been idle for so many seconds.",
                "Create",
                tuple(fields),
                lambda given: judge(given, known, here),
            )
        )
        if not answer:
            return
        values |= answer
        spec = ClusterSpec(
            values["name"],
            values["size"],
            int(values["least"]),
            int(values["most"]),
            int(values["idle"]),
            values["tier"],
        )
        made = await console.attempt(console.workspace.create_cluster(spec))
        if made is not None:
            console.notify(f"Cluster {made.name} is {made.state}.", markup=False, timeout=5)
            return


def judge(given: Mapping[str, str], known: Mapping[str, Size], here: bool) -> Verdict:
    """What the fields of a cluster come to: cores and GPUs at most, and that they cost; or what is wrong with them."""
    wrong = _wrong_counts(given)
    if not given.get("name", "x"):
        return "A name is needed: letters, digits and hyphens, a letter first.", False
    if known and given.get("size") not in known:
        return "There is no such size; f2 lists them.", False
    if wrong:
        return wrong, False
    return costs(int(given["least"]), int(given["most"]), known.get(given.get("size", "")), here), True


def _wrong_counts(given: Mapping[str, str]) -> str:
    for name, label in (("least", "Nodes at least"), ("most", "Nodes at most"), ("idle", "Idle seconds")):
        if not (given[name].isascii() and given[name].isdecimal()):
            return f"{label}: a whole number is needed."
    if int(given["least"]) > int(given["most"]):
        return "The least cannot be more than the most."
    return ""


def costs(least: int, most: int, size: Size | None, here: bool) -> str:
    """What so many nodes of a size come to, and whether they cost while nothing runs."""
    name = size.name if size else "its size"
    each = f" = {_all(size, most)}" if size and most else ""
    said = f"At most {most} × {name}{each}."
    if here:
        return f"{said} They are this machine's own: nothing is billed."
    rest = (
        f"{least} × {name} are billed by the hour even while nothing runs."
        if least
        else "With none at rest, rest is free."
    )
    return f"{said} Each node is billed by the hour while it is there. {rest}"


def _all(size: Size, nodes: int) -> str:
    gpus = f", {size.gpus * nodes} GPU{'s' * (size.gpus * nodes > 1)}" if size.gpus else ""
    return f"{size.cores * nodes} core{'s' * (size.cores * nodes > 1)}{gpus}"


async def edit(console: FootplateApp, cluster: Cluster) -> None:
    """Ask for nodes and idle time, then change what was changed."""
    if console.cannot("update_cluster"):
        return
    here = console.workspace.kind == "local"
    size = Size(cluster.size, cluster.cores_per_node, cluster.gpus_per_node) if cluster.cores_per_node else None
    before = {"least": cluster.min_nodes, "most": cluster.max_nodes, "idle": cluster.idle_seconds}
    values = {name: str(number) for name, number in before.items()}

    def say(given: Mapping[str, str]) -> Verdict:
        said, can = judge(given, {}, here)
        if not can:
            return said, can
        changes = [
            f"{label} {before[name]} → {int(given[name])}"
            for name, label in (("least", "least"), ("most", "most"), ("idle", "idle seconds"))
            if int(given[name]) != before[name]
        ]
        total = costs(int(given["least"]), int(given["most"]), size, here)
        return f"{', '.join(changes) or 'Nothing is changed yet.'}\n{total}", bool(changes)

    while True:
        answer = await console.push_screen_wait(
            FieldsDialog(
                f"Cluster {cluster.name} in workspace {console.workspace_name}",
                f"{cluster_room(cluster)}; {cluster.busy_nodes} hold a job.",
                "Change",
                (
                    Field("least", "Nodes at least", values["least"]),
                    Field("most", "Nodes at most", values["most"]),
                    Field("idle", "Idle seconds", values["idle"]),
                ),
                say,
            )
        )
        if not answer:
            return
        values = answer
        changed = {name: int(value) for name, value in answer.items() if int(value) != before[name]}
        done = await console.attempt(
            console.workspace.update_cluster(
                cluster.name,
                min_nodes=changed.get("least"),
                max_nodes=changed.get("most"),
                idle_seconds=changed.get("idle"),
            )
        )
        if done is not None:
            return


async def delete(console: FootplateApp, cluster: Cluster) -> None:
    """Ask for the name, saying what runs and waits there, then delete."""
    if console.cannot("delete_cluster"):
        return
    there = await jobs_on(console, cluster.name)
    lines = [f"{job.name} is {job.status} there." for job in there[:_MOST_NAMED]]
    if len(there) > _MOST_NAMED:
        lines.append(f"… and {len(there) - _MOST_NAMED} more.")
    if there:
        lines.append("While jobs hold its nodes or wait for them, it is not deleted.")
    else:
        lines.append("No job runs or waits there now. Job files that name it find it no more.")
    text = "\n".join([*lines, f"{cluster_room(cluster)}. Workspace {console.workspace_name}."])
    asked = ConfirmDialog(f"Delete cluster {cluster.name}?", text, "Delete", cluster.name)
    if await console.push_screen_wait(asked):
        await console.attempt(console.workspace.delete_cluster(cluster.name))


async def jobs_on(console: FootplateApp, cluster: str) -> list[Job]:
    """The active jobs of the newest page that are on a cluster or wait for it."""
    try:
        async for page in console.workspace.jobs(JobFilter()):
            return [job for job in page if job.active and job.compute == cluster]
    except WorkspaceError as error:
        console.tell_fault(error)
    return []


SIZE_COLUMNS = (
    Column("name", "SIZE", None, minimum=20, priority=100),
    Column("cores", "CORES", 5, "right", priority=95),
    Column("gpus", "GPUS", 4, "right", priority=90),
    Column("memory", "MEMORY", 8, "right", priority=80),
    Column("family", "FAMILY", None, minimum=16, priority=60),
    Column("low", "LOW PRIORITY", 12, priority=50),
)


def size_rows(sizes: Sequence[Size]) -> list[Row]:
    """A row a size."""
    return [
        Row(
            size.name,
            (
                size.name,
                str(size.cores),
                str(size.gpus) if size.gpus else Cell("–", "muted"),
                f"{size.memory_gb:g} GB" if size.memory_gb is not None else Cell("–", "muted"),
                Cell(size.family, "muted"),
                Cell("yes" if size.low_priority else "no", "muted"),
            ),
        )
        for size in sizes
    ]
