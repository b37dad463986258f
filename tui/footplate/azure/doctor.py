"""A read-only look at a live workspace: which of the claims about Azure ML hold there. Nothing that it reports names anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from footplate.azure import clouds, place
from footplate.azure.claims import CLAIMS, Claim
from footplate.azure.client import Client
from footplate.azure.evidence import Evidence, Refused
from footplate.azure.parts import quieten
from footplate.azure.probes import PROBES
from footplate.azure.sign_in import credential_of
from footplate.settings import Settings
from footplate.workspace.errors import NotSignedIn, WorkspaceError


@dataclass(frozen=True)
class Finding:
    """One claim and what was seen of it: `held` is None where this workspace did not show it, or it was not tried."""

    claim: Claim
    held: bool | None
    saw: str

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {"claim": self.claim.id, "basis": self.claim.basis, "held": self.held, "saw": self.saw}


async def examine(name: str, settings: Settings) -> Sequence[Finding]:
    """Try every claim on the workspace of that name, with GET requests only.

    Raises NotSignedIn, Invalid, and what the first request of the workspace itself raises.
    """
    table = settings.azure(name)
    cloud = clouds.find(table, name, settings.file.parent)
    quieten()
    client = Client(
        cloud, place.find(table, name), credential_of(cloud, table.tenant_id, table.token_env, table.token_cache)
    )
    try:
        evidence = Evidence(client)
        await evidence.workspace()
        return [await _find(claim, evidence) for claim in CLAIMS]
    finally:
        await client.close()


async def _find(claim: Claim, evidence: Evidence) -> Finding:
    if claim.why_not or claim.id not in PROBES:
        return Finding(claim, None, f"not probed: {claim.why_not or 'no probe of it was written'}")
    try:
        held, saw = await PROBES[claim.id](evidence)
    except NotSignedIn:
        raise
    except Refused as error:
        held, saw = None, f"could not be asked: {error.sentence}"
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        held, saw = None, f"could not be read: {type(error).__name__}"
    except WorkspaceError as error:  # whose sentence names what was asked for
        held, saw = None, f"could not be asked: {type(error).__name__}"
    return Finding(claim, held, saw)
