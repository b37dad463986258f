"""Online endpoints and deployments: traffic, names, scoring scripts, models."""

from __future__ import annotations

import re
from collections.abc import Mapping

from footplate.jobfile import nodes
from footplate.jobfile.document import JobFile
from footplate.jobfile.faults import Code, Report, Severity
from footplate.jobfile.rules.files import FILE, FOLDER, check_data, found_at, local_path, names_in, near_path, not_there
from footplate.jobfile.shapes import as_number

_ENDPOINT = "name: birds\nauth_mode: key\n"
_DEPLOYMENT = "name: blue\nendpoint_name: birds\ninstance_type: Standard_DS3_v2\ninstance_count: 1\n"

CODES = (
    Code(
        "traffic-sum",
        "error",
        "The traffic of all deployments together must be 100 per cent, or 0.",
        f"{_ENDPOINT}traffic:  # here\n  blue: 60\n  green: 50\n",
    ),
    Code(
        "mirror-traffic",
        "error",
        "Traffic is mirrored to one deployment. One that takes live traffic too has a warning.",
        f"{_ENDPOINT}mirror_traffic:  # here\n  green: 10\n  blue: 10\n",
    ),
    Code(
        "online-name",
        "error",
        "The name of an endpoint or deployment has 3 to 32 letters, digits and dashes, a letter first, no dash at the end.",
        "name: 2-birds  # here\nauth_mode: key\ntraffic: {blue: 100}\n",
    ),
    Code(
        "instances",
        "error",
        "A cluster, or a deployment that scales, with a least number of nodes above the greatest.",
        "name: cpu\ntype: amlcompute\nmin_instances: 5  # here\nmax_instances: 2\n",
    ),
    Code(
        "scoring-script",
        "error",
        "The scoring script is not in the code folder, or none is named. A warning where the folder is empty.",
        f"{_DEPLOYMENT}code_configuration:\n  code: ./score\n  scoring_script: scroe.py  # here\n",
        needs="files",
    ),
)

_NAME = re.compile(r"[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?")
"""Source: azure-ai-ml's EndpointConfigurations; footplate's own rule (workspace/names.py) takes no two dashes in a row."""
_SHORTEST, _LONGEST = 3, 32


def name(job_file: JobFile, report: Report) -> None:
    """The names of endpoint and deployment are such as Azure takes.

    Azure's client refuses a wrong one in an endpoint's file at once. A deployment's is often given on the command line in
    place of the file's: there it is a warning.
    """
    for key in ("name", "endpoint_name"):
        given = job_file.get(key)
        if not isinstance(given, str) or report.has((key,)):
            continue
        what = "deployment" if job_file.kind == "deployment" and key == "name" else "endpoint"
        severity: Severity = "error" if job_file.kind == "endpoint" else "warning"
        hint = "Use 3 to 32 characters: a letter first, then letters, digits and dashes, with no dash at the end."
        if "{{" in given or given.startswith("<"):
            fault, hint = f"{given!r} is a placeholder, not the {what}'s name.", "Fill in the name."
        elif not (_SHORTEST <= len(given) <= _LONGEST) or not _NAME.fullmatch(given):
            fault = f"{given!r} cannot be the name of {'an' if what == 'endpoint' else 'a'} {what}."
        elif "--" in given:
            fault, hint = f"{given!r} has two dashes in a row, which not every workspace takes.", "Write one dash."
            severity = "warning"
        else:
            continue
        report.add("online-name", (key,), fault, hint, severity=severity)


def traffic(job_file: JobFile, report: Report) -> None:
    """Shares add up, and what is mirrored takes no live traffic. Source: reference-yaml-endpoint-online."""
    shares = _shares(job_file, "traffic")
    total = sum(shares.values())
    sound = len(shares) == len(job_file.mapping("traffic")) and all(0 <= share <= 100 for share in shares.values())
    if sound and total not in (0, 100):
        sums = " + ".join(map(str, shares.values()))
        fault = f"The traffic must add up to 100 or 0; {f'{sums} = {total}' if len(shares) > 1 else f'it is {total}'}."
        report.add("traffic-sum", ("traffic",), fault, "Change the shares.", key=True)
    taking = [deployment for deployment, share in _shares(job_file, "mirror_traffic").items() if share]
    if len(taking) > 1:
        fault = f"Traffic is mirrored to {len(taking)} deployments; it can be to one."
        report.add("mirror-traffic", ("mirror_traffic",), fault, f"Keep {taking[0]} alone.", key=True)
    for deployment in taking:
        if shares.get(deployment):
            fault = (
                f"Deployment {deployment} takes {shares[deployment]} % of the live traffic, and mirrored traffic too."
            )
            where = ("mirror_traffic", deployment)
            report.add("mirror-traffic", where, fault, "Give it one or the other.", severity="warning", key=True)


def _shares(job_file: JobFile, key: str) -> dict[str, int]:
    """The shares that are whole numbers; what is none, or out of range, is the shape's fault."""
    shares = {}
    for deployment, given in job_file.mapping(key).items():
        share = as_number(given)
        if share is not None and abs(share) < 1e9 and share == int(share):
            shares[deployment] = int(share)
    return shares


def scoring(job_file: JobFile, report: Report) -> None:
    """The code folder and the scoring script in it are there; paths are relative to the file."""
    place: nodes.Path = ("code_configuration",)
    given = job_file.mapping(*place)
    text = local_path(given.get("code"))
    script = given.get("scoring_script")
    if given.get("code") and script in (None, "") and isinstance(job_file.get(*place), Mapping):
        hint = "Name the script with init() and run()."
        report.add("scoring-script", place, "`scoring_script` is missing beside `code`.", hint, key=True)
    if not text:
        return
    folder = job_file.base / text
    found = found_at(folder)
    if found == "":
        report.add(
            "code-missing",
            (*place, "code"),
            f"The code folder {text} is not there.",
            not_there(job_file.base, text, report),
        )
    elif found == FILE:
        report.add(
            "code-not-folder", (*place, "code"), f"The code {text} is one file, not a folder.", "Name its folder."
        )
    elif found == FOLDER and isinstance(script, str) and script and found_at(folder / script) == "":
        where = (*place, "scoring_script")
        if not names_in(folder):  # a checkout that is not filled yet, as a git submodule; not a misspelt name
            fault = f"The code folder {text} is empty: {script} is not in it."
            report.add("scoring-script", where, fault, "Fill it first.", severity="warning")
            return
        near = near_path(folder, script, report)
        hint = f"Did you mean {near}?" if near else f"It is relative to the code folder, {folder.resolve()}."
        report.add("scoring-script", where, f"The scoring script {script} is not in the code folder {text}.", hint)


def model(job_file: JobFile, report: Report) -> None:
    """A model that comes from this machine lies at its path; Azure's client refuses the file where it does not."""
    given = job_file.get("model")
    if isinstance(given, Mapping):
        check_data(job_file, given, ("model",), report, "error")


def instances(job_file: JobFile, report: Report) -> None:
    """The least number of nodes is not above the greatest."""
    place: nodes.Path = () if job_file.kind == "compute" else ("scale_settings",)
    low, high = (as_number(job_file.get(*place, key)) for key in ("min_instances", "max_instances"))
    if low is not None and high is not None and low > high:
        fault = f"`min_instances` {low:.0f} is above `max_instances` {high:.0f}."
        report.add("instances", (*place, "min_instances"), fault, "Lower it, or raise the other.")


RULES = (
    (("compute", "deployment"), instances),
    (("endpoint", "deployment"), name),
    (("endpoint",), traffic),
    (("deployment",), scoring),
    (("deployment",), model),
)
