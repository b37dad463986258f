"""Every picture once, on one rank, and the same numbers however many ranks there are and whoever started them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.trainer.starts import ELASTIC, TINY, Ended, Ranks, azure_places, mpi_places

from footplate.operations.pictures import score_module

pytestmark = pytest.mark.slow
EXACT = (*TINY, "--dropout=0", "--num_epochs=2")
TWO, FOUR = "--batch_size=4", "--batch_size=8"


def report(output: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((output / "report" / "report.json").read_text())
    return document


def test_validation_numbers_are_the_same_on_one_rank_and_on_two_by_any_launcher(
    ranks: Ranks, birds: Path, tmp_path: Path
) -> None:
    def output(name: str) -> tuple[str, str]:
        return f"--data={birds}", f"--output_dir={tmp_path / name}"

    ended: list[Ended] = [ranks.alone(*output("one"), *EXACT, FOUR)]
    ended += ranks.together(*output("azure"), *EXACT, TWO, places=azure_places(2))
    ended += ranks.together(*output("nodes"), *EXACT, TWO, places=azure_places(2, a_node=1))
    ended += ranks.together(*output("mpi"), *EXACT, TWO, places=mpi_places(2))
    ended.append(ranks.start(*output("torchrun"), *EXACT, TWO, script=ELASTIC, RESTARTS="0").end())
    assert [each.code for each in ended] == [0] * 8, ended
    assert "MPI" in ended[5].out
    assert "torchrun" in ended[7].out
    assert [line.split()[:3] for line in ended[3].out.splitlines()[3:5]] == [["0", "0", "0"], ["1", "1", "0"]]

    one = report(tmp_path / "one")
    assert one["pictures"] == 7
    assert sum(map(sum, one["confusion"])) == 7
    weights = {name: (tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("azure", "nodes")}
    for name in ("azure", "nodes", "mpi", "torchrun"):
        other = report(tmp_path / name)
        assert other["confusion"] == one["confusion"]
        for mine, theirs in zip(other["history"], one["history"], strict=True):
            assert mine["val_acc"] == theirs["val_acc"]
            assert mine["val_loss"] == pytest.approx(theirs["val_loss"], abs=1e-5)
            assert mine["train_loss"] == pytest.approx(theirs["train_loss"], abs=1e-5)
        assert (tmp_path / name / "model" / "model.safetensors").read_bytes() == weights["azure"]


def test_accumulated_batches_are_one_step_to_the_last_rest(ranks: Ranks, birds: Path, tmp_path: Path) -> None:
    """Seventeen pictures, twice three or once six a step: the same steps, the last one of five."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    common = (f"--data={birds}", *EXACT)
    ended = [ranks.alone(*common, f"--output_dir={whole}", "--batch_size=6")]
    ended += [ranks.alone(*common, f"--output_dir={parts}", "--batch_size=3", "--accumulate=2")]
    assert [each.code for each in ended] == [0, 0], ended
    for mine, theirs in zip(report(parts)["history"], report(whole)["history"], strict=True):
        assert mine["train_loss"] == pytest.approx(theirs["train_loss"], abs=1e-5)
        assert mine["val_loss"] == pytest.approx(theirs["val_loss"], abs=1e-5)
    assert "3 pictures a rank × 2 batches = 6 a step" in ended[1].out


def test_validation_counts_agree_with_the_scoring_code(ranks: Ranks, birds: Path, tmp_path: Path) -> None:
    """One process with the scoring code gets what two ranks added up."""
    import onnxruntime

    done = ranks.together(f"--data={birds}", f"--output_dir={tmp_path}", *TINY)
    assert [each.code for each in done] == [0, 0], done
    pictures, preprocessing = score_module("pictures"), score_module("preprocessing")
    manifest = json.loads((tmp_path / "model" / "model.json").read_text())
    session = onnxruntime.InferenceSession(str(tmp_path / "model" / "model.onnx"), providers=["CPUExecutionProvider"])
    losses, right = [], []
    for label, name in enumerate(manifest["classes"]):
        for path in sorted((birds / "val" / name).iterdir()):
            prepared = preprocessing.preprocess(pictures.open_picture(path), manifest["preprocessing"])
            scores = session.run(None, {"images": prepared.array})[0][0].astype(np.float64)
            losses.append(np.log(np.exp(scores - scores.max()).sum()) + scores.max() - scores[label])
            right.append(int(scores.argmax()) == label)
    assert len(right) == 7
    assert manifest["metrics"]["best_val_acc"] == sum(right) / 7
    assert manifest["metrics"]["val_loss"] == pytest.approx(float(np.mean(losses)), abs=1e-4)


BATCHES = """
from data import EpochBatches
from errors import BadInput
for least in (1, 2):
    for count in range(1, 40):
        for size in range(1, 9):
            steps = {}
            for world in range(1, 5):
                try:
                    ranks = [EpochBatches(count, size, rank, world, 0, least) for rank in range(world)]
                except BadInput:
                    assert count < least * world, (count, world)
                    continue
                epochs = []
                for epoch in (1, 2):
                    for rank in ranks:
                        rank.epoch = epoch
                    batches = [[[index for _, index in batch] for batch in rank] for rank in ranks]
                    assert {len(each) for each in batches} == {len(ranks[0])}
                    sizes = [len(batch) for each in batches for batch in each]
                    assert min(sizes) >= least, (count, size, world, sizes)
                    assert max(sizes) <= max(size, least) * 1.25 + 2 * least, (count, size, world, sizes)
                    for of_a_step in zip(*batches):
                        assert max(map(len, of_a_step)) - min(map(len, of_a_step)) <= 1
                    seen = [index for each in batches for batch in each for index in batch]
                    assert sorted(seen) == list(range(count)), (count, size, world)
                    epochs.append(seen)
                assert count < 8 or epochs[0] != epochs[1]
                # What is left after any step is what a restart there goes through, in the same steps.
                start, end = ranks[0].bounds()[0]
                whole = [list(rank) for rank in ranks]
                for rank in ranks:
                    rank.consumed = end
                assert [list(rank) for rank in ranks] == [each[1:] for each in whole]
# The pictures of each step do not depend on how many ranks share it.
def steps(world, size):
    ranks = [EpochBatches(97, size, rank, world, 3, 1) for rank in range(world)]
    return [sorted(index for batch in step for _, index in batch) for step in zip(*ranks)]
assert steps(1, 24) == steps(2, 12) == steps(4, 6) and len(steps(1, 24)) == 4
print("held")
"""


def test_every_rank_has_as_many_batches_and_every_picture_is_in_one(ranks: Ranks) -> None:
    done = ranks.run(BATCHES)
    assert done.out == "held\n", done.err
