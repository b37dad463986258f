"""One figure of a bench, and how a group of them is printed and kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """A value and its baseline in the same unit; `budget` bounds their ratio from above, None judges nothing."""

    name: str
    value: float
    unit: str
    baseline: float | None = None
    budget: float | None = None

    @property
    def ratio(self) -> float | None:
        """Value to baseline."""
        return self.value / self.baseline if self.baseline else None

    @property
    def ok(self) -> bool:
        """Whether the ratio keeps within the budget."""
        return self.budget is None or (self.ratio is not None and self.ratio <= self.budget)

    def document(self) -> dict[str, object]:
        """What the JSON file holds."""
        return {**asdict(self), "ratio": self.ratio, "ok": self.ok}


def publish(group: str, figures: Sequence[Figure]) -> bool:
    """Print the figures as a table, write build/bench/GROUP.json, and say whether all keep their budgets."""
    rows = [("WHAT", "VALUE", "BASELINE", "RATIO", "BUDGET", "")]
    for f in figures:
        rows.append(
            (
                f.name,
                f"{f.value:.4g} {f.unit}",
                f"{f.baseline:.4g} {f.unit}" if f.baseline is not None else "",
                f"{f.ratio:.2f}" if f.ratio is not None else "",
                f"≤ {f.budget:g}" if f.budget is not None else "",
                "ok" if f.ok else "OVER",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    print(f"\n{group}")
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    file = Path("build/bench") / f"{group}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([f.document() for f in figures], indent=2) + "\n")
    return all(f.ok for f in figures)
