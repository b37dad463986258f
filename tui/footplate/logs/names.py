"""What the paths of a job's log files tell: the rank, the attempt, and to which group a file belongs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

USER, SYSTEM, OTHER = "user", "system", "other"

_RANKS = (
    re.compile(r"(?:^|/)std_log_process_(\d+)(?:_ps)?\.txt$"),
    re.compile(r"(?:^|/)\d\d_driver_log_(\d+)\.txt$"),
    re.compile(r"/attempt_\d+/(\d+)/(?:stdout|stderr)\.log$"),  # torchrun's --log-dir
    re.compile(r"(?:^|/)rank[-_]?(\d+)(?:\D[^/]*)?\.(?:log|txt|out|err)$"),
)
_ATTEMPT = re.compile(r"(?:^|/)(?:retry|attempt)[-_]?(\d+)(?=/)")
_SYSTEM = ("system_logs/", "azureml-logs/", "logs/azureml/")
_BUILD = "image_build"


def rank_of(path: str) -> int | None:
    """The rank whose log a file is; None where its name does not tell."""
    return next((int(found[1]) for pattern in _RANKS if (found := pattern.search(path))), None)


def attempt_of(path: str) -> int | None:
    """The attempt that a file is of, where its path tells: a job that was preempted or restarted has several."""
    found = _ATTEMPT.search(path)
    return int(found[1]) if found else None


def is_image_build(path: str) -> bool:
    """Whether it is the log of building the environment's image."""
    return _BUILD in path


def group_of(path: str) -> str:
    """`user` for what the job's own processes wrote to their output, `system` for what the service wrote, else `other`."""
    if path.startswith("user_logs/") or re.match(r"azureml-logs/\d\d_driver_log", path):
        return USER
    return SYSTEM if path.startswith(_SYSTEM) else OTHER


def label_of(path: str) -> str:
    """A file's name as a list shows it, in which its folder is known: `rank 3`, else the name itself."""
    rank = rank_of(path)
    name = path.rpartition("/")[2]
    if rank is None:
        return "image build" if is_image_build(path) else name
    kind = f" {name.partition('.')[0]}" if name.startswith(("stdout", "stderr")) else " (ps)" if "_ps" in name else ""
    return f"rank {rank}{kind}"


def rank_files(paths: Iterable[str]) -> Sequence[str]:
    """The logs of the ranks of the newest attempt, in their order; a job's only log where it has one rank."""
    of_user = [path for path in paths if group_of(path) == USER]
    newest = max((attempt_of(path) or 0 for path in of_user), default=0)
    found = [path for path in of_user if (attempt_of(path) or 0) == newest]
    ranked = [path for path in found if rank_of(path) is not None]
    return sorted(ranked, key=lambda path: (rank_of(path), path)) if ranked else found
