"""The trainer against the loop of Microsoft's tutorial, a million files to list, and ten killed ranks."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.figures import Figure

ROOT = Path(__file__).resolve().parents[2]
TRAINER, SEED_LOOP = ROOT / "trainer", Path(__file__).with_name("seed_loop.py")
EPOCHS, FROZEN_EPOCHS, KILLS = 3, 25, 10
TRAIN, VAL = 240, 200
CLASSES, EACH = 1_000, 1_000

# Steps of both loops in turn, on the same pictures and weights, one thread, fp32, batches of 16.
STEPS = """
import argparse, copy, json, sys, time
sys.path.insert(0, sys.argv[1])
import torch, epochs, networks, distributed
from checkpoint import Progress
from data import EpochBatches
from interruption import Interruption
from optimisation import Precision, Schedule
torch.set_num_threads(1)
torch.manual_seed(0)
theirs = networks.build("resnet18", 2)
ours = copy.deepcopy(theirs).to(memory_format=torch.channels_last)
count, batch = 64, 16
pictures = [(torch.randn(batch, 3, 224, 224), torch.randint(0, 2, (batch,))) for _ in range(count // batch)]
with torch.inference_mode():
    laid = pictures[0][0].to(memory_format=torch.channels_last)
    difference = float((theirs.eval()(pictures[0][0]) - ours.eval()(laid)).abs().max())
args = argparse.Namespace(accumulate=1, seed=0, label_smoothing=0.0)
ranks = distributed.read_environment()
precision = Precision.choose("fp32", ranks.device)
schedule = Schedule("constant", 0.001, 10, 0.0, 7, 0.1)
def sgd(network): return torch.optim.SGD(network.parameters(), lr=0.001, momentum=0.9)
own, seed = sgd(ours), sgd(theirs)
work = epochs.Epoch(
    ours, pictures, EpochBatches(count, batch, 0, 1, 0), own, torch.amp.GradScaler("cpu", enabled=False), schedule, precision, args
)
def our_epoch():
    epochs.train_epoch(work, Progress(), ranks, Interruption(ranks, 10), lambda _: None)
def their_epoch():
    theirs.train()
    for images, labels in pictures:
        seed.zero_grad()
        loss = torch.nn.functional.cross_entropy(theirs(images), labels)
        torch.autograd.backward(loss)
        seed.step()
def seconds(act):
    began = time.process_time()
    act()
    return (time.process_time() - began) / count
rounds = [(seconds(our_epoch), seconds(their_epoch)) for _ in range(int(sys.argv[2]) + 1)][1:]
print(json.dumps({"rounds": rounds, "difference": difference}))
"""

LISTING = """
import json, os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import imagefolder
root, kept = Path(sys.argv[2]), Path(sys.argv[3])
def plain():
    return sum(1 for split in ("train", "val") for e in os.scandir(root / split) for _ in os.scandir(e.path))
def look():
    folder = imagefolder.find_pictures(root, kept)
    return len(folder.train) + len(folder.val)
def seconds(act):
    began = time.process_time()
    if act() != int(sys.argv[4]):
        raise SystemExit("files are missing")
    return time.process_time() - began
rounds = []
for _ in range(5):
    for file in (kept / "listings").glob("*"):
        file.unlink()
    rounds.append((seconds(look), seconds(look), seconds(plain)))
print(json.dumps(rounds))
"""


def environment(**more: str) -> dict[str, str]:
    """Variables of a process that is nobody's rank."""
    odd = re.compile(r"MLFLOW_|(RANK|WORLD_SIZE|LOCAL_RANK|OMP_NUM_THREADS)$")
    return {**{name: value for name, value in os.environ.items() if not odd.match(name)}, **more}


def output(command: list[str], **more: str) -> str:
    """What a process prints. Raises where it fails."""
    done = subprocess.run(
        [sys.executable, *command], cwd=TRAINER, env=environment(**more), check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def torchrun(arguments: list[str], restarts: int = 0) -> subprocess.Popen[str]:
    """Two ranks with a thread each."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return subprocess.Popen(
        [*command, f"--max-restarts={restarts}", "train.py", *arguments],
        cwd=TRAINER,
        env=environment(OMP_NUM_THREADS="1", TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def same_arithmetic() -> list[Figure]:
    """CPU time of a picture in training, the same sums in both."""
    found = json.loads(output(["-c", STEPS, str(TRAINER), "5"]).splitlines()[-1])
    ours, theirs = (statistics.median(each) * 1000 for each in zip(*found["rounds"], strict=True))
    if found["difference"] > 1e-5:
        raise RuntimeError(f"The logits differ by {found['difference']}.")
    return [
        Figure("train resnet18, 224 px, fp32, batch 16: CPU a picture", ours, "ms", theirs, 1 / 1.15),
        Figure("… largest difference of a logit", found["difference"], ""),
    ]


def whole_epochs(data: Path, folder: Path) -> tuple[list[Figure], float]:
    """Epochs with validation as each of the two does them, and the baseline's seconds an epoch."""
    lines = [line.split() for line in output([str(SEED_LOOP), str(data), str(EPOCHS)]).splitlines()]
    theirs = float(lines[-1][2]) / EPOCHS
    best = float(lines[-1][3])
    arguments = [f"--data={data}", f"--output_dir={folder}", f"--num_epochs={EPOCHS}", "--image_size=224"]
    process = torchrun(arguments)
    assert process.stdout
    times, accuracy = [], 0.0
    for line in process.stdout:
        if line.startswith("Batch:"):
            times.append(time.monotonic())
        if match := re.match(r"Epoch .* best ([\d.]+)", line):
            times.append(time.monotonic())
            accuracy = float(match[1])
    if process.wait():
        raise RuntimeError("The training failed.")
    ours = (times[-1] - times[0]) / EPOCHS
    figures = [
        Figure("an epoch of 240 and 200 pictures, default settings, two ranks", ours, "s", theirs, 1 / 1.8),
        Figure(f"best_val_acc after {EPOCHS} epochs, baseline's", accuracy, "", best),
    ]
    return figures, theirs


def frozen(data: Path, folder: Path, epoch: float) -> list[Figure]:
    """25 epochs of a head, from the start of the process to its end: with features to compute, and with them there."""
    figures = []
    arguments = [f"--data={data}", f"--cache_dir={folder / 'cache'}", "--backbone=frozen", "--image_size=224"]
    for name in ("features computed", "features there"):
        began = time.monotonic()
        process = torchrun([*arguments, f"--output_dir={folder / 'frozen'}", f"--num_epochs={FROZEN_EPOCHS}"])
        process.communicate()
        if process.returncode:
            raise RuntimeError("The training of a head failed.")
        seconds = time.monotonic() - began
        budget = 1 / 15
        figures.append(
            Figure(f"{FROZEN_EPOCHS} epochs, frozen resnet18, {name}", seconds, "s", epoch * FROZEN_EPOCHS, budget)
        )
    return figures


def kills(data: Path, folder: Path) -> list[Figure]:
    """A rank killed at ten places, started again by torchrun: the weights of a training that nobody disturbed."""
    common = [f"--data={data}", "--image_size=64", "--num_epochs=6", "--architecture=mobilenet_v3_small"]
    common += ["--checkpoint_minutes=0.0001", "--resume=auto"]
    digests = []
    for wanted in (0, KILLS):
        place = folder / f"kills-{wanted}"
        process = torchrun([*common, f"--output_dir={place}"], restarts=KILLS)
        assert process.stdout
        killed, pids = 0, dict[int, int]()
        for line in process.stdout:
            if match := re.match(r"  ([01]) +0 +[01] +\S+ +(\d+)", line):
                pids[int(match[1])] = int(match[2])
            # In turn: a rank while an epoch goes on, and rank 0 at an epoch's end.
            if killed < wanted and re.match(r"Checkpoint|Epoch \d+/\d+ +train" if killed % 2 else "Checkpoint", line):
                os.kill(pids[killed % 2], signal.SIGKILL)
                killed += 1
        if process.wait():
            raise RuntimeError(f"The training did not outlive {killed} kills.")
        digests.append(hashlib.sha256((place / "model" / "model.safetensors").read_bytes()).hexdigest())
    if digests[0] != digests[1] or killed != KILLS:
        raise RuntimeError(f"After {killed} kills the weights are others.")
    return [Figure("ranks killed, the weights the same bit for bit", killed, "")]


def listing(folder: Path) -> list[Figure]:
    """A million empty files listed for the first and for the second time, against scandir over them."""
    for split, each in (("train", EACH), ("val", 1)):
        for number in range(CLASSES):
            place = folder / "files" / split / f"{number:04}"
            place.mkdir(parents=True)
            for name in range(each):
                os.close(os.open(place / f"{name:06}.jpg", os.O_CREAT | os.O_WRONLY))
            os.utime(place, (7, 7))
        os.utime(folder / "files" / split, (7, 7))
    script = ["-c", LISTING, str(TRAINER), str(folder / "files"), str(folder / "listings"), str(CLASSES * (EACH + 1))]
    rounds = json.loads(output(script))
    first, second, plain = (statistics.median(each) for each in zip(*rounds, strict=True))
    return [
        Figure("list a million files, first time", first, "s", plain, 2),
        Figure("list a million files, again", second, "s", plain, 0.1),
    ]


def measure() -> list[Figure]:
    """All figures; about a quarter of an hour on two quiet cores."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, few = folder / "birds", folder / "few"
        for place, train, val in ((data, TRAIN, VAL), (few, 48, 20)):
            output(["birds.py", str(place), f"--train={train}", f"--val={val}", "--test=0"])
        figures = same_arithmetic()
        epochs, baseline = whole_epochs(data, folder / "default")
        figures += epochs
        figures += frozen(data, folder, baseline)
        figures += kills(few, folder)
        figures += listing(folder)
        shutil.rmtree(folder / "files")
        return figures
