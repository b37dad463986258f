"""Signing in by a device code, for a workspace and for the connect screen; Azure's libraries are loaded when it begins."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from footplate.azure.clouds import Cloud
from footplate.settings import AzureSettings
from footplate.workspace.model import DeviceCode

if TYPE_CHECKING:
    from footplate.azure.credential import CachingCredential
    from footplate.azure.sign_in import DeviceCodeSource


async def sign_in_by_code(
    credential: CachingCredential, cloud: Cloud, settings: AzureSettings, show: Callable[[DeviceCode], None]
) -> None:
    """Show a code, wait until it was typed in, and take all tokens from this sign-in. Raises NotSignedIn."""
    source = await asyncio.to_thread(_device_code, cloud, settings, show)
    try:
        await _in_thread(lambda: source.sign_in(cloud.scope))
    except BaseException:
        source.close()  # whose next question to the directory then ends the thread
        raise
    await asyncio.to_thread(credential.use, source)


def _device_code(cloud: Cloud, settings: AzureSettings, show: Callable[[DeviceCode], None]) -> DeviceCodeSource:
    from footplate.azure.kept_sign_in import KeptSignIn
    from footplate.azure.sign_in import DeviceCodeSource

    kept = KeptSignIn(cloud, settings.tenant_id) if settings.token_cache else None
    return DeviceCodeSource(cloud, settings.tenant_id, show, kept)


async def _in_thread(work: Callable[[], None]) -> None:
    """Do what may take a quarter of an hour in a thread that nobody has to wait for when the console is left."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()  # so that the result of one whose caller has gone is no fault

    def run() -> None:
        try:
            work()
            future.set_result(None)
        except BaseException as error:  # noqa: BLE001  handed to whoever waits
            future.set_exception(error)

    threading.Thread(target=run, name="sign-in", daemon=True).start()
    await asyncio.wrap_future(future)
