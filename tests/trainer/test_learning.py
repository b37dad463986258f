"""What is trained and how: any network, frozen backbones with kept features, the learning rate, an early end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.trainer.starts import TINY, Ranks

pytestmark = pytest.mark.slow

FROZEN = (*TINY, "--architecture=mobilenet_v3_small", "--backbone=frozen", "--num_epochs=5")


def test_features_are_computed_once_and_parallel_trials_share_them(ranks: Ranks, birds: Path, tmp_path: Path) -> None:
    """Three heads at the same time, one of them on two ranks: one computes, and what is exported is the whole network."""
    common = (f"--data={birds}", *FROZEN, f"--cache_dir={tmp_path / 'kept'}")
    started = ranks.start_together(*common, f"--output_dir={tmp_path / 'two'}")
    rates = ("0.001", "0.01")
    started += [ranks.start(*common, f"--output_dir={tmp_path / rate}", f"--learning_rate={rate}") for rate in rates]
    ended = [each.end() for each in started]
    assert [each.code for each in ended] == [0] * 4, ended
    firsts = [ended[0], *ended[2:]]
    assert sum("24 pictures go through it once" in each.out for each in firsts) == 1
    assert sum("Features of the frozen backbone: from" in each.out for each in firsts) == 2
    kept = [path for path in (tmp_path / "kept" / "features").iterdir() if path.is_dir()]
    assert len(kept) == 1

    from safetensors.numpy import load_file

    one, other = (load_file(tmp_path / rate / "model" / "model.safetensors") for rate in rates)
    changed = {name for name in one if not (one[name] == other[name]).all()}
    assert changed == {"classifier.3.weight", "classifier.3.bias"}
    assert all("The ONNX file gives the same scores as torch" in each.out for each in firsts)

    (birds_file := next((birds / "train").rglob("*.jpg"))).touch()
    again = ranks.alone(*common, f"--output_dir={tmp_path / 'again'}")
    assert "24 pictures go through it once" in again.out, birds_file


RATES = """
import argparse
from optimisation import Schedule, scaled_rate
def schedule(**given):
    usual = dict(num_epochs=10, lr_schedule="cosine", warmup_epochs=None, lr_step_epochs=3, lr_gamma=0.1)
    return Schedule.of(argparse.Namespace(**{**usual, **given}), 1.0)
def rates(s, steps=4):
    return [round(s.rate(i / steps, (i + 1) / steps), 4) for i in range(10 * steps)]
cosine = rates(schedule())
assert cosine[:8] == [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0] and cosine[8] == 1.0
assert cosine[8:] == sorted(cosine[8:], reverse=True) and cosine[-1] < 0.01 and cosine[24] == 0.5
step = rates(schedule(lr_schedule="step"), 1)
assert step == [1, 1, 1, .1, .1, .1, .01, .01, .01, .001], step
assert rates(schedule(lr_schedule="step", warmup_epochs=2), 1)[:4] == [.5, 1, 1, .1]
assert set(rates(schedule(lr_schedule="constant"))) == {1.0}
given = argparse.Namespace(batch_size=10, accumulate=2, learning_rate=0.1, lr_scaling="linear")
assert scaled_rate(given, 4) == (0.8, "10 pictures a rank × 4 ranks × 2 batches = 80 a step; learning rate 0.8 (0.1 × 8, linear)")
print("held")
"""


def test_the_learning_rate_follows_its_schedule_from_the_first_step(ranks: Ranks) -> None:
    done = ranks.run(RATES)
    assert done.out == "held\n", done.err


def test_it_stops_after_so_many_epochs_without_a_better_one(ranks: Ranks, birds: Path, tmp_path: Path) -> None:
    arguments = [f"--data={birds}", f"--output_dir={tmp_path}", *FROZEN, "--num_epochs=500", "--patience=3"]
    done = ranks.alone(
        *arguments, "--learning_rate=5", "--optimizer=sgd", "--lr_schedule=constant", "--label_smoothing=0.1"
    )
    assert done.code == 0, done
    history = json.loads((tmp_path / "report" / "report.json").read_text())["history"]
    best = max(history, key=lambda epoch: (epoch["val_acc"], -epoch["val_loss"]))
    assert len(history) == best["epoch"] + 3 < 500
    assert f"Stopped early: no better epoch than {best['epoch']:.0f} in 3 epochs." in done.out


SAME = """
import random
import numpy as np, torch
from data import Preprocessing
from PIL import Image
slope = np.linspace(40, 200, 110)[None, :, None] + np.linspace(-30, 30, 73)[:, None, None] + np.array((0, 9, 20))
picture = Image.fromarray(slope.astype(np.uint8))
shape = Preprocessing.for_size(64)
class Middle(random.Random):
    def uniform(self, a, b): return (a + b) / 2
    def random(self): return 0.9
usual = shape.validation()(picture)
varied = [shape.varied(picture, random.Random(seed)) for seed in ("a", "a", "b")]
assert torch.equal(varied[0], varied[1]) and not torch.equal(varied[0], varied[2])
assert varied[0].shape == usual.shape == (3, 64, 64)
assert abs(float(varied[2].mean() - usual.mean())) < 0.5
middle = shape.varied(picture, Middle())
assert abs(float(middle.mean() - usual.mean())) < 0.02 and abs(float(middle.std() / usual.std()) - 1) < 0.2
print("held")
"""


def test_a_training_picture_varies_by_its_seed_alone(ranks: Ranks) -> None:
    done = ranks.run(SAME)
    assert done.out == "held\n", done.err


EVERY = """
import sys, warnings, torch
import networks
for name in networks.architectures():
    if sys.argv[1:] and name not in sys.argv[1:]:
        continue
    # Without numbers it is quick; regnet counts its layers with tensors.
    device = torch.device("cpu" if name.startswith("regnet") else "meta")
    picture = torch.zeros(1, 3, 224, 224, device=device)
    with device:
        network = networks.build(name, 3, 224)
    assert network.eval()(picture).shape == (1, 3), name
    try:
        parent, attribute, head = networks.head_of(network, name)
        assert head.out_features == 3, name
        setattr(parent, attribute, torch.nn.Identity())
        assert network(picture).shape == (1, head.in_features), name
    except networks.BadInput:
        assert name.startswith("squeezenet"), name
print("held")
"""


def test_networks_of_every_family_take_any_class_count_and_give_features(ranks: Ranks) -> None:
    families = ["alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "mnasnet0_5"]
    families += [
        "mobilenet_v2",
        "regnet_y_400mf",
        "resnet18",
        "shufflenet_v2_x0_5",
        "squeezenet1_0",
        "vgg11",
        "vit_b_32",
    ]
    done = ranks.start(*families, script=EVERY).end()
    assert done.out == "held\n", done.err


@pytest.mark.long
def test_every_network_takes_any_class_count_and_gives_features(ranks: Ranks) -> None:
    done = ranks.start(script=EVERY).end()
    assert done.out == "held\n", done.err
