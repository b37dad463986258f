"""The resource manager's rate limits: a token bucket each for reads, writes and deletes, told in headers."""

from __future__ import annotations

from datetime import datetime

from tests.wire.clock import Clock


class Bucket:
    """So many requests deep, refilled at a rate; the server's clock counts."""

    def __init__(self, clock: Clock, depth: int, per_second: float) -> None:
        """A full bucket."""
        self._clock = clock
        self.depth, self.per_second = depth, per_second
        self.left = float(depth)
        self._seen: datetime = clock.now

    def take(self) -> bool:
        """Take one; False where none is left."""
        now = self._clock.now
        self.left = min(self.depth, self.left + max(0.0, (now - self._seen).total_seconds()) * self.per_second)
        self._seen = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Limits:
    """The buckets of one principal in one subscription and region. Run history and blobs do not count."""

    def __init__(self, clock: Clock, *, reads: int = 250, writes: int = 200, enforced: bool = False) -> None:
        """`enforced` False keeps the buckets full for a server whose clock stands still."""
        self.reads, self.writes, self.deletes = (
            Bucket(clock, reads, 25),
            Bucket(clock, writes, 10),
            Bucket(clock, writes, 10),
        )
        self.enforced = enforced

    def take(self, method: str) -> tuple[bool, dict[str, str]]:
        """Count a request: whether it may go on, and the headers that tell what is left."""
        word = {"GET": "reads", "HEAD": "reads", "DELETE": "deletes"}.get(method, "writes")
        bucket = {"reads": self.reads, "deletes": self.deletes}.get(word, self.writes)
        allowed = bucket.take() if self.enforced else True
        left = int(bucket.left) if self.enforced else bucket.depth - 1
        headers = {
            f"x-ms-ratelimit-remaining-subscription-{word}": str(left),
            f"x-ms-ratelimit-remaining-subscription-global-{word}": str(left * 15),
        }
        if not allowed:
            headers["Retry-After"] = "1"
        return allowed, headers
