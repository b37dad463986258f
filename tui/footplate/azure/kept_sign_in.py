"""An opt-in, `token_cache = true`: a sign-in by device code stays on disk, so that the next console needs no other code."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

from footplate import paths
from footplate.azure.clouds import Cloud
from footplate.faults import record as note

if TYPE_CHECKING:
    from azure.identity import AuthenticationRecord

_CACHE = "footplate"


class KeptSignIn:
    """The sign-in of one cloud and tenant. Its tokens lie where azure-identity keeps them: in the desktop's key ring, and
    where there is none, as over SSH, in `~/.IdentityService/footplate.*`, which only the owner may read. In footplate's
    home lies whose they are, which is no secret.
    """

    def __init__(self, cloud: Cloud, tenant: str) -> None:
        name = hashlib.sha256(f"{cloud.active_directory} {tenant}".encode()).hexdigest()[:16]
        self._directory = cloud.active_directory
        self._file = paths.home() / f"account-{name}.json"

    def options(self) -> dict[str, Any]:
        """What a credential of azure-identity is made with to use the kept tokens."""
        from azure.identity import TokenCachePersistenceOptions

        return {"cache_persistence_options": TokenCachePersistenceOptions(name=_CACHE, allow_unencrypted_storage=True)}

    def account(self) -> AuthenticationRecord | None:
        """Whose the tokens are; None where nobody's are kept."""
        from azure.identity import AuthenticationRecord

        try:
            kept = AuthenticationRecord.deserialize(self._file.read_text(encoding="utf-8"))
            # The directory is the settings', whatever the file says: the tokens are shown to nobody else.
            return AuthenticationRecord(
                kept.tenant_id, kept.client_id, self._directory, kept.home_account_id, kept.username
            )
        except (OSError, ValueError, KeyError, TypeError):  # none, or none of ours: the next sign-in writes it
            return None

    def keep(self, account: AuthenticationRecord) -> None:
        """Note whose tokens are kept."""
        new = self._file.with_name(f"{self._file.name}.{os.getpid()}.new")
        try:
            new.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(account.serialize())
            new.replace(self._file)
        except OSError as error:  # the sign-in stands, and is asked for again next time
            note(error)
