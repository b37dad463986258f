"""`make azure-demo`: the console on a small Azure ML of this machine, in which things go on.

`python -m tests.wire.demo [--sign-in] [--folder build/azure-demo] [COMMAND …]`: another command than `footplate` with
the settings that open the server, as in `… demo footplate jobs`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.wire.life import LOGS, log_path
from tests.wire.plans import JobPlan
from tests.wire.server import WireServer
from tests.wire.state import Call
from tests.wire.threaded import running_server
from tests.wire.workspaces import TENANT

_CLASSES = ("chicken", "turkey")
_PREPROCESSING = {
    "resize": 73,
    "crop": 64,
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
    "interpolation": "bilinear",
}
_JOB_SECONDS = 45.0
_TRAFFIC_SECONDS = 20.0
_CODE_SECONDS = 10.0
_REPOSITORY = Path(__file__).resolve().parents[2]


def _score(call: Call) -> tuple[int, Any]:
    """An answer as the trainer's models give it, and the same for the same picture."""
    probability = 0.55 + sum(call.body[::97]) % 400 / 1000
    first = sum(call.body) % 2
    scores = [
        {"label": _CLASSES[first], "probability": probability},
        {"label": _CLASSES[1 - first], "probability": round(1 - probability, 3)},
    ]
    return 200, {**scores[0], "scores": scores, "steps": ["resize 73", "crop 64"], "timings": {"model_ms": 6.2}}


def _furnish(wire: WireServer) -> None:
    """Jobs that take minutes, a model that says what it is, an endpoint that answers."""
    wire.default_plan = JobPlan(running=240, lines_per_second=6)
    wire.plans["text_bad"] = JobPlan(running=40, lines_per_second=3, ends="Failed")
    wire.plans["image_first"] = JobPlan(image_build=60, running=120)
    wire.seed.demo()
    compute = f"{wire.state.ws}/computes/cpu"
    wire.seed.submit("text_bad", experimentName="text", displayName="too large a batch")
    wire.seed.submit("image_first", displayName="its image is built first")
    two = {"distributionType": "PyTorch", "processCountPerInstance": 2}
    wire.seed.submit("train_two_nodes", computeId=compute, distribution=two, resources={"instanceCount": 2})
    document = {
        "format": 1,
        "architecture": "resnet18",
        "classes": list(_CLASSES),
        "preprocessing": _PREPROCESSING,
        "input_shape": [3, 64, 64],
        "metrics": {"best_val_acc": 0.953},
    }
    with wire.lock:
        path = log_path("seed_00039", "outputs/model/model.json")
        wire.state.put_blob(LOGS, path, json.dumps(document).encode())
        wire.state.scorer = _score


def _go_on(wire: WireServer, stop: threading.Event, confirm: bool) -> None:
    """Submit a job now and then, shift traffic, and type in the codes that somebody asked for."""
    compute = f"{wire.state.ws}/computes/cpu"
    for second in itertools.count(1):
        if stop.wait(1.0):
            return
        if second % _JOB_SECONDS == 0:
            wire.seed.submit(f"later_{second:05d}", computeId=compute, displayName=f"after {second} s")
        if second % _TRAFFIC_SECONDS == 0:
            share = 90 - second // 20 % 9 * 10
            with wire.lock:
                wire.state.endpoints["birds-live"]["properties"]["traffic"] = {"blue": share, "green": 100 - share}
        if confirm and second % _CODE_SECONDS == 0:
            wire.directory.confirm()


def _settings(wire: WireServer, sign_in: bool) -> str:
    lines = wire.settings("azure-demo")
    if sign_in:
        kept = [line for line in lines.splitlines() if not line.startswith("token_env")]
        lines = "\n".join([*kept, f'tenant_id = "{TENANT}"'])
    return f'workspace = "azure-demo"\n\n{lines}\n'


def _pictures(folder: Path) -> None:
    """Pictures to send, where there are none yet."""
    if not folder.exists():
        script, few = _REPOSITORY / "trainer" / "birds.py", ("--train", "4", "--val", "12", "--test", "4")
        subprocess.run([sys.executable, str(script), str(folder), *few], check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    """Serve, and run the console until it is left. Returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.wire.demo", description=__doc__)
    parser.add_argument("--sign-in", action="store_true", help="with no token at first: shows the sign-in by a code")
    parser.add_argument("--folder", type=Path, default=Path("build/azure-demo"), help="settings, copies, pictures")
    parser.add_argument("--speed", type=float, default=1.0, help="how fast the server's clock goes")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run in place of footplate")
    given = parser.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    _pictures(folder / "pictures")
    stop = threading.Event()
    with running_server(_furnish, speed=given.speed, operation_polls=None) as wire:
        (folder / "config.toml").write_text(_settings(wire, given.sign_in))
        environment = os.environ | {
            "FOOTPLATE_CONFIG": str(folder / "config.toml"),
            "FOOTPLATE_HOME": str(folder / "home"),
            "FOOTPLATE_WIRE_TOKEN": wire.token,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        threading.Thread(target=_go_on, args=(wire, stop, given.sign_in), name="demo", daemon=True).start()
        try:
            return subprocess.call(given.command or ["footplate"], env=environment, cwd=folder)
        finally:
            stop.set()


if __name__ == "__main__":
    sys.exit(main())
