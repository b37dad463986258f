"""Lists in pages: `value`, and a `nextLink` whose token holds the place by name, so that new items shift nothing."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Iterable
from urllib.parse import urlencode

from tests.wire.http import Call, Refusal, Reply
from tests.wire.state import Body


def page(
    call: Call, items: Iterable[Body], size: int | None = None, keep: Callable[[Body], bool] = lambda _: True
) -> Reply:
    """The page that a call asks for, of the items to `keep`, in their order."""
    size = size or call.wire.page_size
    rest = iter(items)
    if token := call.query.get("$skip"):
        last = _last(token)
        next((item for item in rest if item["id"] == last), None)
    part = list(itertools.islice((item for item in rest if keep(item)), size + 1))
    body: Body = {"value": part[:size]}
    if len(part) > size:
        query = {key: value for key, value in call.query.items() if key != "$skip"}
        query["$skip"] = base64.urlsafe_b64encode(json.dumps({"last": part[size - 1]["id"]}).encode()).decode()
        body["nextLink"] = f"{call.wire.resource_manager}{call.path}?{urlencode(query)}"
    return Reply(body=body)


def _last(token: str) -> str:
    try:
        return str(json.loads(base64.urlsafe_b64decode(token))["last"])
    except (ValueError, KeyError) as error:
        raise Refusal(400, "BadRequest", "Invalid continuation token.") from error
