"""Charts with what goes round them: which group is shown, how it is looked at, the filter, the keys, and a picture of one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from textual import on, work
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from footplate import words
from footplate.actions import actions
from footplate.logs.sanitise import clean
from footplate.operations import charts
from footplate.operations.metrics import Axis, Panel, compiled
from footplate.operations.scales import text_of
from footplate.widgets.chart_grid import ChartGrid
from footplate.widgets.key_hints import key_hints
from footplate.workspace import Invalid, WorkspaceError


@dataclass(frozen=True)
class Group:
    """Charts that belong together, what they are called, and what is said where there are none."""

    name: str
    panels: Sequence[Panel]
    empty: str
    only_axis: Axis | None = None


Build = Callable[[bool], Sequence[Group]]
"""Makes the groups; train and val of a metric on one chart, or each on its own."""


class ChartPane(Vertical):
    """A `ChartGrid` with its line of state above, and a filter of names."""

    DEFAULT_CSS = """
    ChartPane > #chart-state { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    ChartPane > #chart-keys { height: 1; padding: 0 1; color: $text-muted; text-wrap: nowrap; }
    ChartPane > #chart-filter { height: 1; border: none; padding: 0 1; display: none; background: $surface; }
    ChartPane > #chart-filter.shown { display: block; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding(a.keys, a.id, a.title, show=False) for a in actions("charts")]

    def __init__(self, *, signs_only: bool = False, id: str | None = None) -> None:
        """`signs_only`: a curve is a job, whose name stands elsewhere; train and val keep charts of their own."""
        super().__init__(id=id)
        self._pairing = not signs_only
        self.joined = True
        self.expression = ""
        self.group = ""
        self.picture_name: tuple[str, ...] = ()
        """What a saved picture's name begins with: the job's name."""
        self._build: Build = lambda joined: ()
        self._groups: Sequence[Group] = ()
        self._fault = ""
        self.grid = ChartGrid(signs_only=signs_only)
        self._state = Static("", id="chart-state", markup=False)
        self._keys = Static("", id="chart-keys", markup=False)
        self._filter = Input(placeholder="regular expression, as in loss or ^val_", id="chart-filter", compact=True)

    def compose(self) -> ComposeResult:
        """The state, the filter, the charts, the keys."""
        yield self._state
        yield self._filter
        yield self.grid
        yield self._keys

    def focus(self, scroll_visible: bool = True) -> Self:
        """The charts take the keys."""
        self.grid.focus(scroll_visible)
        return self

    def on_mount(self) -> None:
        """The filter's cursor does not blink: nothing moves that says nothing."""
        self._filter.cursor_blink = False
        self._show()

    def show_groups(self, build: Build) -> None:
        """Show what this makes, and keep it to make it again when pairs are split or joined."""
        self._build = build
        self._groups = build(self.joined)
        if self.group not in [group.name for group in self._groups]:
            self.group = self._groups[0].name if self._groups else ""
        self._show()

    @property
    def current(self) -> Group | None:
        """The group that is shown."""
        return next((group for group in self._groups if group.name == self.group), None)

    def _show(self) -> None:
        group = self.current
        if group is None:
            self.grid.show((), "Loading …")
            return
        panels, empty, self._fault = list(group.panels), group.empty, ""
        if self.expression and panels:
            try:
                wanted = compiled(self.expression)
                panels = [panel for panel in panels if any(map(wanted.search, panel.names))]
                empty = f"None of {len(group.panels)} charts matches {self.expression!r}. esc shows all."
            except Invalid as error:
                self._fault = error.sentence
        self.grid.show(panels, empty, group.only_axis)
        self._tell()

    # What is said

    @on(ChartGrid.Changed)
    def _tell(self) -> None:
        self._state.update(self._state_text())
        off = {"pairs"} if not self._pairing else set()
        off |= {"group"} if len(self._groups) < 2 else set()
        off |= {"axis", "pairs"} if self.grid.only_axis else set()
        shown = [action for action in (*actions("chart"), *actions("charts")) if action.id not in off]
        if not self.grid.panels and not self.expression:
            shown = [action for action in shown if action.id == "group"]
        self._keys.update(key_hints(shown, self.size.width - 2))

    def on_resize(self) -> None:
        """As many hints as there is room for."""
        self._tell()

    def _state_text(self) -> Content:
        grid = self.grid
        tabs = [
            Content.styled(
                f" {group.name} {len(group.panels)} ", "reverse" if group.name == self.group else "$text-muted"
            )
            for group in self._groups
        ]
        if self._fault:
            return Content("  ").join([*tabs, Content.styled(clean(self._fault), "$text-warning")])
        parts: list[tuple[str, str]] = []
        page, count = grid.on_page, len(grid.panels)
        if count and len(page) < count:
            at = f"{page.start + 1}–{page.stop}" if len(page) > 1 else f"{page.start + 1}"
            parts.append((f"{at} of {count}", ""))
        if self.expression:
            parts.append((f"/{clean(self.expression)}", "$text-accent"))
        if grid.panels:
            parts += self._looked_at()
        return Content.assemble(
            *(piece for tab in tabs for piece in (tab, " ")),
            *(piece for text, style in parts for piece in ("  ", (text, style or "$text-muted"))),
        )

    def _looked_at(self) -> list[tuple[str, str]]:
        grid = self.grid
        text = text_of("time" if grid.axis == "time" else "step")
        parts = [("over time since the start" if grid.axis == "time" else "over steps", "")]
        if grid.log_scale:
            parts.append(("log scale", "$text-accent"))
        if grid.smoothing:
            parts.append((f"smoothed {grid.smoothing:g} (~, as logged faint)", "$text-accent"))
        if grid.window is not None:
            parts.append((f"{text(grid.window[0])} to {text(grid.window[1])}", "$text-accent"))
        if grid.cursor is not None:
            parts.append((f"at {'' if grid.axis == 'time' else 'step '}{text(grid.cursor)}", "$text-warning"))
        return parts

    # Keys

    def action_pairs(self) -> None:
        """Train and val of one metric on one chart, or each on its own."""
        if not self._pairing or self.grid.only_axis:
            raise SkipAction
        self.joined = not self.joined
        self.show_groups(self._build)

    def action_group(self) -> None:
        """The next group."""
        names = [group.name for group in self._groups]
        if len(names) > 1:
            self.group = names[(names.index(self.group) + 1) % len(names)]
            self._show()

    def action_filter(self) -> None:
        """Open the filter line."""
        self._filter.add_class("shown")
        self._filter.focus()

    @on(Input.Changed, "#chart-filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.expression = event.value
        self._show()

    @on(Input.Submitted, "#chart-filter")
    def _filter_done(self, event: Input.Submitted) -> None:
        event.stop()
        self._close_filter()

    def _close_filter(self) -> None:
        self._filter.remove_class("shown")
        self.grid.focus()

    def action_leave(self) -> None:
        """Take back what hides something, the last first; then leave to whoever is around."""
        if self._filter.has_class("shown"):
            self._filter.value = ""
            self._close_filter()
        elif self.grid.leave():
            return
        elif self.expression:
            self._filter.value = ""
        else:
            raise SkipAction

    @work(group="export")
    async def action_export(self) -> None:
        """Save the selected chart as an SVG file in the current folder."""
        grid = self.grid
        panel, series = grid.panel, grid.series_shown()
        if panel is None or not series:
            self.app.notify("There is no chart to save.", markup=False, timeout=4)
            return
        title = panel.title or ", ".join(source.name for source in panel.sources)
        figure = charts.Figure(
            " · ".join((*self.picture_name, title)),
            series,
            "time" if grid.axis == "time" else "step",
            grid.log_scale,
            grid.window,
            f"smoothed {grid.smoothing:g}" if grid.smoothing else "",
            dark=self.app.current_theme.dark,
        )
        try:
            file = charts.free_name(Path.cwd(), *self.picture_name, title)
            await asyncio.to_thread(charts.save, figure, file)
        except (WorkspaceError, OSError) as error:
            self.app.notify(f"The chart was not saved: {error}", severity="error", markup=False, timeout=10)
        else:
            self.app.notify(f"Saved {words.path(file)}.", markup=False, timeout=6)
