"""Write docs/azure.md from the claims about Azure ML: `python docs/make_azure.py`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from footplate.azure.claims import CLAIMS, Claim

PAGE = Path(__file__).with_name("azure.md")

HEAD = """\
<!-- Made by docs/make_azure.py; change azure/claims.py or the script, not this page. -->

# Footplate on Azure ML

## Connecting

    footplate --workspace azure

opens the workspace that is named by, in this order:

1. `[workspaces.azure]` in the settings (`footplate info` says where that file is), or the table of another name after
   `--workspace`: `subscription_id`, `resource_group`, `workspace_name`;
2. a `config.json` as Azure ML's studio gives it, in this folder, its `.azureml`, or a folder above;
3. the variables `SUBSCRIPTION_ID`, `RESOURCE_GROUP`, `WORKSPACE_NAME`, or inside a job `AZUREML_ARM_*`.

Where none of them does, the console lists the workspaces that you may see; the one you choose is written into the settings.
"Connect to a workspace" in the palette (`^p`) does the same at any time.

## Signing in

The first of these that gives a token is used, and named in the header: the service principal in `AZURE_CLIENT_ID`,
`AZURE_TENANT_ID` and `AZURE_CLIENT_SECRET` (or a certificate), workload identity, managed identity, the Azure CLI's login
(`az login`, over SSH `az login --use-device-code`). The way that worked last time is tried before those that nobody has set
variables for. Where none works, the console shows a device code to type into a browser on any machine.
`AZURE_TOKEN_CREDENTIALS` chooses: `prod` (the first three), `dev` (the tools' logins), or one class of azure-identity by its
name; a browser on this machine is opened only by `InteractiveBrowserCredential`.

Tokens are kept in memory, and renewed before they end; no token, key or signed address is written to a file. Where
`token_cache = true` stands in the workspace's table, a sign-in by device code stays on this machine: in the desktop's key ring,
else, as over SSH, in plain files under `~/.IdentityService` that only their owner may read.

## What is kept on this machine

The jobs as they were last seen, in one file for each workspace under `cache/azure` of footplate's home (`footplate info`): the
list is on screen before Azure has answered, with its age. Jobs that have ended are not asked for again, so a look at a
thousand jobs is one request, and one more for each old job that goes on; what was archived or deleted elsewhere is gone within ten
minutes. When jobs ran, why they failed and, of the newest, their metric is asked of run history and MLflow, which are not counted:
once of a job that has ended, every ten seconds of one that goes on. The file holds no secrets, only its owner may read it, and it
can be removed at any time.

## Economy

Reads are counted by the resource manager; the header says how many are left. Footplate looks every two seconds, more seldom when
fewer than 100 are left, five times more seldom while the terminal says that it has no focus, once a minute when no key was
pressed for five minutes, and not at all when both are so; the header says which. A key, or the focus, looks at once.

## What footplate holds to be true

It was built without an account. Each claim is **recorded** (seen in an answer of the live service that was published),
**documented** (Microsoft says so, or its SDK relies on it) or **assumed**.

    footplate doctor --azure --workspace NAME

tries them on a live workspace, with GET requests only, and says which held. Its report names nothing of yours. Please send us what
did not hold: a claim becomes a fact by it.
"""


def page(claims: Sequence[Claim] = CLAIMS) -> str:
    """The page's text."""
    rows = ["| claim | what | basis | source | tried by doctor |", "| --- | --- | --- | --- | --- |"]
    for claim in claims:
        tried = f"no: {claim.why_not}" if claim.why_not else "yes"
        rows.append(f"| `{claim.id}` | {claim.text} | {claim.basis} | {claim.source} | {tried} |")
    return "\n".join([HEAD, *rows]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name}: {len(CLAIMS)} claims")
