"""The alerts of a console: when it is looked, what is watched, and how an alert shows on the terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from footplate.logs.sanitise import clean
from footplate.workspace import Cluster, Endpoint, Job, WorkspaceError

if TYPE_CHECKING:
    from footplate.app import FootplateApp
    from footplate.operations.alert_rules import Finding
    from footplate.operations.alerts import Alerts

Severity = Literal["information", "warning", "error"]
_LOOK_SECONDS = 3.0
_ALONE_LOOK_SECONDS = 60.0
"""Where the console looks as seldom as that, nobody seems to be at the terminal."""
_MOST_TOASTS, _MOST_NAMED = 3, 4
_TOAST_SECONDS, _AWAY_SECONDS = 10, 15


class Alerting:
    """Between the console and its alerts, which are loaded when the first frame is drawn. Faults are told once."""

    def __init__(self, console: FootplateApp) -> None:
        self._console = console
        self._alerts: Alerts | None = None
        self._loading = asyncio.Lock()
        self._refused = ""

    def begin(self) -> None:
        """Look from now on; first for what came about while no console was open."""
        self._console.set_interval(_LOOK_SECONDS, self._look_soon)
        self._look_soon()

    async def close(self) -> None:
        """End what is under way; another console does it."""
        if self._alerts is not None:
            await self._alerts.close()

    async def alerts(self) -> Alerts:
        """The alerts themselves. Raises WorkspaceError."""
        async with self._loading:
            if self._alerts is None:
                made = await asyncio.to_thread(self._make)
                await made.begin()
                self._alerts = made
        return self._alerts

    def _make(self) -> Alerts:
        """In a thread: what it is made of is seldom needed for the first frame."""
        from footplate import settings
        from footplate.operations.alert_rules import rules_of
        from footplate.operations.alert_store import store_of
        from footplate.operations.alerts import Alerts, pace_seconds

        console = self._console
        store = store_of(console.workspace.name)
        rules = rules_of(settings.load().alerts)

        def pace() -> float:
            return pace_seconds(console.workspace, alone=console.look_seconds >= _ALONE_LOOK_SECONDS)

        return Alerts(console.workspace, rules, store, self._show, self._say_fault, pace)

    # What screens read anyway

    def saw_jobs(self, jobs: Iterable[Job]) -> None:
        """Jobs that were read just now."""
        if self._alerts is not None:
            self._alerts.saw_jobs(jobs)

    def saw_clusters(self, clusters: Iterable[Cluster]) -> None:
        """Clusters that were read just now."""
        if self._alerts is not None:
            self._alerts.saw_clusters(clusters)

    def saw_endpoints(self, endpoints: Iterable[Endpoint]) -> None:
        """Endpoints that were read just now."""
        if self._alerts is not None:
            self._alerts.saw_endpoints(endpoints)

    # The watch list

    def launched(self, job: str) -> None:
        """Watch a job that was launched from this console: how it ends is told."""
        self._run(self._watch("job", [job]))

    def toggle(self, kind: str, *names: str) -> None:
        """Watch things, or no more where all of them are watched."""
        on = [name for name in names if (kind, name) not in self._console.watched]
        self._run(self._watch(kind, on, say=True) if on else self._unwatch(kind, names))

    async def _watch(self, kind: str, names: Sequence[str], *, say: bool = False) -> None:
        alerts = await self.alerts()
        for name in names:
            await alerts.watch(kind, name)
        self._console.watched = alerts.watched
        if say:
            told = "the end is told" if kind == "job" else "trouble is told"
            said = f"{_named(kind, names)} watched: {told}. ! lists all."
            self._console.notify(said, markup=False, timeout=4)
        self._look_soon()

    async def _unwatch(self, kind: str, names: Sequence[str]) -> None:
        alerts = await self.alerts()
        for name in names:
            await alerts.unwatch(kind, name)
        self._console.watched = alerts.watched
        self._console.notify(f"{_named(kind, names)} watched no more.", markup=False, timeout=4)

    # Looking

    def _look_soon(self) -> None:
        self._run(self._look())

    async def _look(self) -> None:
        alerts = await self.alerts()
        await alerts.look()
        self._console.watched = alerts.watched

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """In a worker of the app; a fault is told, the same one once."""
        self._console.run_worker(self._told(work), group="alerts")

    async def _told(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            self._refused = ""
        except WorkspaceError as error:
            self._refuse(str(error))
        except Exception as error:  # noqa: BLE001  the last line before the user: a sentence, the traceback in the log
            from footplate.faults import unforeseen

            if repr(error) != self._refused:
                self._refused = repr(error)
                self._say_fault(unforeseen(error))

    def _refuse(self, sentence: str) -> None:
        if sentence != self._refused:
            self._refused = sentence
            self._say_fault(sentence)

    # Showing

    def _say_fault(self, sentence: str) -> None:
        self._console.notify(sentence, severity="warning", markup=False, timeout=_TOAST_SECONDS)

    def _show(self, found: Sequence[Finding], doing: str, *, away: bool) -> None:
        if doing == "toast":
            self._toast(found, away)
            return
        from footplate.clipboard import passed_on
        from footplate.operations.alert_actions import sequence

        if doing == "ring":
            self._console.bell()
        else:
            self._console.send_to_terminal("".join(passed_on(sequence(doing, one)) for one in found[-_MOST_TOASTS:]))

    def _toast(self, found: Sequence[Finding], away: bool) -> None:
        """A toast for each, one for many, and one for all that came about while no console was open."""
        if not away and len(found) <= _MOST_TOASTS:
            for one in found:
                severity: Severity = "error" if one.event == "failed" else "warning" if one.bad else "information"
                self._console.notify(one.text, severity=severity, markup=False, timeout=_TOAST_SECONDS)
            return
        failed = sum(one.event == "failed" for one in found)
        counts = ((failed, "failed"), (sum(one.event == "finished" for one in found), "finished"))
        said = ", ".join(f"{count} {what}" for count, what in counts if count)
        rest = len(found) - sum(count for count, _ in counts)
        said = ", ".join(
            part for part in (said, f"{rest} more" if rest and said else f"{rest}" if rest else "") if part
        )
        bad_first = sorted(found, key=lambda one: not one.bad)
        names = ", ".join(clean(one.name) for one in bad_first[:_MOST_NAMED])
        more = " …" if len(found) > _MOST_NAMED else ""
        self._console.notify(
            f"{'While you were away' if away else 'Alerts'}: {said}.\n{names}{more}   ! lists them",
            severity="error" if failed else "information",
            markup=False,
            timeout=_AWAY_SECONDS,
        )


def _named(kind: str, names: Sequence[str]) -> str:
    """`wren is`, or `3 jobs are`."""
    return f"{clean(names[0])} is" if len(names) == 1 else f"{len(names)} {kind}s are"
