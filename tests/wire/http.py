"""What a request handler takes and gives: a call, a reply, a refusal, and the table of routes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.wire.server import WireServer

WS = (
    r"/subscriptions/(?P<subscription>[^/]+)/resourceGroups/(?P<group>[^/]+)"
    r"/providers/Microsoft\.MachineLearningServices/workspaces/(?P<workspace>[^/]+)"
)
SUB = r"/subscriptions/(?P<subscription>[^/]+)"


@dataclass
class Call:
    """One request: its path unquoted, the parts of the path that the route names, and the server."""

    wire: WireServer
    method: str
    host: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    parts: dict[str, str] = field(default_factory=dict)

    @cached_property
    def json(self) -> Any:
        """The body, as JSON; nothing is an empty object."""
        if not self.body:
            return {}
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise Refusal(400, "BadRequest", f"The request body is not JSON: {error}") from error

    def __getitem__(self, part: str) -> str:
        """A part of the path that the route names."""
        return self.parts[part]


@dataclass
class Reply:
    """An answer. A dict or list is sent as JSON."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """A request that the service refuses, in its nested shape."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: list[dict[str, Any]] | None = None,
        inner: Any = None,
        plain: bool = False,
    ) -> None:
        """`plain` is the short shape of the resource manager itself, without details and additionalInfo."""
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.details, self.inner, self.plain = details or [], inner, plain


Handler = Callable[[Call], Reply]


class Routes:
    """Handlers by method and by path; paths are matched whole, letters of either case, first come first served."""

    def __init__(self) -> None:
        """No route yet."""
        self._routes: list[tuple[str, re.Pattern[str], Handler]] = []

    def on(self, method: str, pattern: str) -> Callable[[Handler], Handler]:
        """Make a function the handler of what matches."""

        def note(handler: Handler) -> Handler:
            self._routes.append((method, re.compile(pattern, re.I), handler))
            return handler

        return note

    def extend(self, other: Routes) -> None:
        """Take another table's routes too."""
        self._routes += other._routes

    def find(self, method: str, path: str) -> tuple[Handler, dict[str, str]] | None:
        """The handler of a request, and the parts of its path."""
        for verb, pattern, handler in self._routes:
            if verb == method and (match := pattern.fullmatch(path)):
                return handler, match.groupdict()
        return None
