"""Ranks of distribution mpi under this machine's own `mpirun`: its command, its variables, and which rank failed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from footplate.jobfile import Plan

VARIABLES: Mapping[str, str] = {
    # Nodes of this machine are simulated: more ranks than cores is no mistake, and jobs beside each other must not be bound
    # to the same cores. The first names are Open MPI 4's, PRTE's are Open MPI 5's; others know none of them.
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}

_RANK = """\
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-0}}}
export OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE} AZUREML_CR_NODE_RANK=$1
export OMPI_COMM_WORLD_LOCAL_RANK=$((rank % $3)) OMPI_COMM_WORLD_LOCAL_SIZE=$3
bash -c "$2" >>"$0/user_logs/std_log_process_$rank.txt" 2>&1
code=$?
echo $code >"$0/system_logs/mpi-exit-$rank"
exit $code
"""
"""What mpirun starts, with the job's folder, the node, the command and the ranks a node: the rank's own log, and its exit code
in a file. To mpirun all nodes are this one machine, so the place on a node is ours to tell."""


def command(plan: Plan, folder: Path, path: str, devices: Sequence[str]) -> list[str]:
    """How `mpirun` starts a job's ranks, each node's in its own folder and with its own GPUs; empty without one on this PATH."""
    found = shutil.which("mpirun", path=path)
    if found is None or plan.distribution != "mpi":
        return []
    words = [found]
    for node in range(plan.nodes):
        words += [":"] if node else []
        words += ["-np", str(plan.ranks_per_node), "-wdir", str(folder / f"node-{node}")]
        words += ["env", f"CUDA_VISIBLE_DEVICES={devices[node]}"] if devices else []
        words += ["bash", "-c", _RANK, str(folder), str(node), plan.command, str(plan.ranks_per_node)]
    return words


def forget_exits(folder: Path) -> None:
    """Remove the exit codes of an earlier start."""
    for file in folder.glob("system_logs/mpi-exit-*"):
        file.unlink()


def exits(folder: Path) -> dict[int, int]:
    """The exit codes of the ranks that ended, in the order they did; empty where mpirun started none."""
    ended = []
    for file in folder.glob("system_logs/mpi-exit-*"):
        number, text = file.name.rpartition("-")[2], file.read_text().strip()
        if text.isdecimal() and number.isdecimal():
            ended.append((file.stat().st_mtime_ns, int(number), int(text)))
    return {rank: code for _, rank, code in sorted(ended)}
