"""The invoke panel: a picture, what the model sees of it, and what it says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from footplate import words
from footplate.logs.sanitise import clean
from footplate.operations import invoke as invoking
from footplate.operations import pictures
from footplate.screens.base import ConsoleScreen, bindings
from footplate.screens.dialogs import TextDialog
from footplate.widgets.bars import Bar, Bars
from footplate.widgets.chrome import KeyLine
from footplate.widgets.picture import Picture
from footplate.workspace import Endpoint, WorkspaceError

if TYPE_CHECKING:
    from footplate.operations.pictures import Look


class InvokeScreen(ConsoleScreen):
    """Pick a picture, see it beside what the model sees, send it, see bars for every class."""

    where = "invoke"
    BINDINGS = bindings("invoke")

    DEFAULT_CSS = """
    InvokeScreen #target { height: 1; padding: 0 1; }
    InvokeScreen #path { height: 1; border: none; padding: 0 1; background: $panel; }
    InvokeScreen #pictures { height: 1fr; }
    InvokeScreen #pictures > Vertical { width: 1fr; padding: 0 1; }
    InvokeScreen .caption { height: 2; color: $text-muted; }
    InvokeScreen Picture { height: 1fr; }
    InvokeScreen #answer { height: 6; border-top: solid $panel-lighten-2; }
    InvokeScreen Bars { width: 1fr; height: 5; padding: 0 1; }
    InvokeScreen #said { width: 44%; height: 5; padding: 0 1; }
    """

    def __init__(self, endpoint: str | None = None) -> None:
        super().__init__()
        self.wanted = endpoint
        self.endpoint: Endpoint | None = None
        self._endpoints: tuple[Endpoint, ...] = ()
        self._picture: Path | None = None
        self._usable = False  # whether the picture could be opened
        self._history: list[str] = []
        self._prediction: invoking.Prediction | None = None

    def crumbs(self) -> tuple[str, ...]:
        """`endpoints ▸ name ▸ invoke`."""
        return ("endpoints", self.endpoint.name, "invoke") if self.endpoint else ("invoke",)

    def compose(self) -> ComposeResult:
        """Endpoint, path, the two pictures, the answer."""
        yield self.top()
        yield Static("", id="target", markup=False)
        yield Input(placeholder="path of a picture; / types it, o picks it", id="path", compact=True)
        with Horizontal(id="pictures"):
            with Vertical():
                yield Static("the picture", id="original-caption", classes="caption", markup=False)
                yield Picture(id="original")
            with Vertical():
                yield Static("what the model sees", id="seen-caption", classes="caption", markup=False)
                yield Picture(id="seen")
        with Horizontal(id="answer"):
            yield Bars(id="bars")
            yield Static("", id="said", markup=False)
        yield self.keys()

    def on_mount(self) -> None:
        """Find the endpoint and a first picture."""
        path = self.query_one("#path", Input)
        path.cursor_blink = False
        self.query_one("#original", Picture).can_focus = True
        self.query_one("#original", Picture).focus()
        self._fit_keys()
        self.set_interval(2.0, self.tick)
        self.poll()

    def _fit_keys(self) -> None:
        """Leave out the keys that have nothing to act on yet."""
        off = set() if self._picture else {"send", "next_picture", "previous_picture"}
        off |= set() if self._prediction else {"raw"}
        off |= set() if len(self._endpoints) > 1 else {"next_endpoint"}
        self.query_one(KeyLine).turn_off(frozenset(off))

    def on_screen_resume(self) -> None:
        """Endpoints may have come or gone."""
        if self.is_mounted:
            self.poll()

    def aim(self, endpoint: str) -> None:
        """Ask this endpoint from now on."""
        if endpoint != self.wanted:
            self.wanted = endpoint
            self.endpoint = None
        self.poll()

    def show_asked(self, endpoint: Endpoint, path: Path, prediction: invoking.Prediction) -> None:
        """Show a picture and an answer that were had elsewhere."""
        self.wanted = endpoint.name
        self.endpoint = endpoint
        self._show_target()
        self.choose(path)
        self.show_prediction(path, prediction)

    async def look(self) -> None:
        """Look up the endpoints; without a choice take the first that serves, and stay with it."""
        found = list(await self.workspace.endpoints())
        first = None if self._picture else await self._sample_picture()
        if not self.is_attached:
            return
        self._endpoints = tuple(found)
        self._fit_keys()
        before = self.endpoint
        if self.wanted is None and found:
            self.wanted = next((e for e in found if e.state == "Succeeded"), found[0]).name
        self.endpoint = next((e for e in found if e.name == self.wanted), None)
        self._show_target()
        if self._picture is None and first is not None and self.endpoint is not None:
            self.choose(first)
        elif self._picture is not None and _model_of(before) != _model_of(self.endpoint):
            self.choose(self._picture)  # another model sees another picture, and the old answer is not its own

    def say_fault(self, sentence: str) -> None:
        """Beside the endpoint's name; picture and answer stay."""
        self.query_one("#target", Static).update(Content.styled(clean(sentence), "$text-error"))

    async def _sample_picture(self) -> Path | None:
        folder = await self._sample_folder()
        return await asyncio.to_thread(lambda: next(iter(sorted(folder.glob("*/*"))), None)) if folder else None

    async def _sample_folder(self) -> Path | None:
        """The sample pictures that were not trained on, where they were drawn."""
        try:
            folder = await self.workspace.data_folder("birds@latest")
        except WorkspaceError:
            return None
        return folder / "val" if folder and (folder / "val").is_dir() else None

    def _show_target(self) -> None:
        self.set_crumbs()
        target = self.query_one("#target", Static)
        if self.endpoint is None:
            gone = f"There is no endpoint {self.wanted} any more." if self.wanted else "No endpoint yet."
            act = "e goes to the next one." if self._endpoints else "d on a model (3) deploys it."
            target.update(Content.styled(f"{gone} {act}", "$text-warning"))
            return
        more = f"   e: next of {len(self._endpoints)} endpoints" if len(self._endpoints) > 1 else ""
        state = "" if self.endpoint.state == "Succeeded" else f"{self.endpoint.state}   "
        shown = [(self.endpoint.name, "bold"), ("   ", ""), (state, "$text-warning")]
        for name, weight in self.endpoint.traffic.items():
            if weight:
                shown += [(f"{clean(name)} {weight} % ", ""), (f"{'█' * round(weight / 10)}   ", "$accent")]
        if not any(self.endpoint.traffic.values()):
            shown.append(("no deployment has traffic", "$text-warning"))
        target.update(Content.assemble(*shown, (more, "$text-muted")))

    # The picture

    def choose(self, path: Path) -> None:
        """Take a picture: show it, and what the model sees."""
        self._picture = path
        field = self.query_one("#path", Input)
        with field.prevent(Input.Changed):
            field.value = words.path(path)
        self._prediction = None
        self.query_one(Bars).show([])
        self._say(Content.styled("enter sends it", "$text-muted"))
        self._fit_keys()
        self._look_at(path)

    @work(exclusive=True, group="picture")
    async def _look_at(self, path: Path) -> None:
        """Decode and preprocess off the loop."""
        found = await self.guarded(self._prepared(path), self._say_error)
        if path != self._picture or not self.query("#original"):
            return
        self._usable = found is not None
        if found is not None:
            self._show_look(path, found)
            return
        for which in ("#original", "#seen"):
            self.query_one(which, Picture).show(None)
        self.query_one("#original-caption", Static).update(Content(clean(path.name)))
        self.query_one("#seen-caption", Static).update(Content("nothing"))

    async def _prepared(self, path: Path) -> Look:
        spec = await invoking.preprocessing(self.workspace, self.endpoint, None) if self.endpoint else None
        return await asyncio.to_thread(pictures.look, path, spec)

    def _show_look(self, path: Path, look: Look) -> None:
        self.query_one("#original", Picture).show(look.original)
        self.query_one("#seen", Picture).show(look.seen)
        width, height = look.size
        self.query_one("#original-caption", Static).update(
            Content.assemble(
                (clean(f"{path.parent.name}/{path.name}"), "$foreground"),
                f"\n{width}×{height} {clean(look.format)} {words.size(look.bytes)}",
            )
        )
        steps = ", ".join(look.steps) or "unchanged"
        self.query_one("#seen-caption", Static).update(
            Content.assemble(
                ("what the model sees", "$foreground"), f"\n{look.seen.width}×{look.seen.height} {clean(steps)}"
            )
        )

    @on(Input.Submitted, "#path")
    def _typed(self, event: Input.Submitted) -> None:
        self.query_one("#original", Picture).focus()
        if typed := event.value.strip():
            try:
                self.choose(Path(typed).expanduser())
            except RuntimeError:  # ~somebody who is not there
                self._say_error(f"{typed} names a home folder that is not there. Type the whole path.")

    def action_path(self) -> None:
        """Type a path."""
        self.query_one("#path", Input).focus()

    @work(exclusive=True, group="pick")
    async def action_pick(self) -> None:
        """Pick a picture from a list of files."""
        from footplate.screens.picker import PathPicker

        start = self._picture or await self._sample_folder()
        chosen = await self.app.push_screen_wait(PathPicker(start, "Pick a picture", suffixes=pictures.SUFFIXES))
        if chosen is not None:
            self.choose(chosen)

    def action_next_picture(self) -> None:
        """The next picture of the same folder."""
        self._step(1)

    def action_previous_picture(self) -> None:
        """The picture before."""
        self._step(-1)

    @work(exclusive=True, group="step")
    async def _step(self, step: int) -> None:
        if self._picture is None:
            return
        beside = await self.guarded(asyncio.to_thread(pictures.pictures_of, self._picture.parent))
        if beside and self._picture in beside:
            self.choose(beside[(beside.index(self._picture) + step) % len(beside)])

    def action_next_endpoint(self) -> None:
        """Ask another endpoint."""
        names = [e.name for e in self._endpoints]
        if names:
            self.aim(names[(names.index(self.wanted) + 1) % len(names)] if self.wanted in names else names[0])

    # The answer

    @work(exclusive=True, group="send")
    async def action_send(self) -> None:
        """Send the picture and show the answer."""
        endpoint, path = self.endpoint, self._picture
        if endpoint is None or path is None or not self._usable:
            what = (
                "Nothing to ask: d on a model (3) deploys it."
                if endpoint is None
                else "Nothing to send: o picks a picture."
            )
            self._say(Content.styled(what, "$text-warning"))
            return
        self._say(Content.styled("asking …", "$text-muted"))
        prediction = await self.guarded(invoking.invoke(self.workspace, endpoint.name, path), self._say_error)
        if prediction is not None and path == self._picture and self.wanted == endpoint.name and self.query("#bars"):
            self.show_prediction(path, prediction)

    def show_prediction(self, path: Path, prediction: invoking.Prediction) -> None:
        """Bars, who answered, how long it took, and the pictures asked about before."""
        self._prediction = prediction
        self._fit_keys()
        self.query_one(Bars).show([Bar(score.label, score.probability) for score in prediction.scores])
        asked = (
            f"answered by {prediction.deployment} · {prediction.status} · {prediction.request_seconds * 1000:.0f} ms"
        )
        parts = [f"prepare {prediction.preprocess_seconds * 1000:.0f}"]
        if prediction.model_ms is not None:
            parts.append(f"model {prediction.model_ms:.0f}")
        sizes = f"sent {words.size(prediction.request_bytes)} · came {words.size(len(prediction.raw))} · {' · '.join(parts)} ms"
        if prediction.error:
            said: Any = Content.styled(clean(prediction.error), "$text-error")
        else:
            sure = f" {words.percent(prediction.probability)}" if prediction.probability is not None else ""
            said = Content.assemble((f"{prediction.label}{sure}", "bold $text-success"))
            score = f" {prediction.probability * 100:.1f}" if prediction.probability is not None else ""
            self._history.insert(0, f"{path.stem} {prediction.label}{score}")
        lines = [said, Content(clean(asked)), Content.styled(clean(sizes), "$text-muted")]
        lines += [Content.styled(note, "$text-warning") for note in prediction.notes]
        if len(self._history) > 1:
            lines.append(Content.styled(clean("history  " + " · ".join(self._history[1:4])), "$text-muted"))
        self._say(Content("\n").join(lines))

    def _say_error(self, sentence: str) -> None:
        if self.query("#said"):
            self._say(Content.styled(clean(sentence), "$text-error"))

    def _say(self, text: Content) -> None:
        self.query_one("#said", Static).update(text)

    def action_raw(self) -> None:
        """The answer as it came."""
        if self._prediction is None:
            self.console.notify("No answer yet; s sends the picture.", markup=False)
            return
        raw = self._prediction.raw.decode("utf-8", "replace")
        try:
            raw = json.dumps(json.loads(raw), indent=2, ensure_ascii=False)
        except ValueError:
            raw = raw or "Empty answer."
        self.app.push_screen(TextDialog(f"Raw answer of {self._prediction.endpoint}", raw))


def _model_of(endpoint: Endpoint | None) -> tuple[str, str] | None:
    """Which endpoint and model answer: what the look of a picture depends on."""
    if endpoint is None:
        return None
    answering = invoking.answering(endpoint, None)
    return endpoint.name, answering.model if answering else ""
