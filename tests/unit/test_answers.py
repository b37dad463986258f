"""What an endpoint's answer means: scores or a sentence, and the exit code of the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from footplate.operations.invoke import Request, explain, prepare
from footplate.workspace import Answer, Invalid

REQUEST = Request(b"", "image/png", (), 0.0)


def answer(status: int, body: bytes = b'{"message": "because"}', **headers: str) -> Answer:
    return Answer(status, headers, body, 0.1, "blue")


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 1), (401, 4), (403, 4), (404, 1), (408, 3), (413, 1), (424, 1), (429, 3), (500, 1), (503, 3)],
)
def test_the_exit_code_tells_whether_to_try_again(status, code):
    prediction = explain("birds", REQUEST, answer(status))
    assert prediction.exit_code == code
    assert "because" in (prediction.error or "")


def test_an_answer_without_scores_ends_with_1_and_one_with_scores_with_0():
    assert explain("birds", REQUEST, answer(200, b"{}")).exit_code == 1
    scores = {"scores": [{"label": "hen", "probability": 0.9}, {"label": "turkey", "probability": 0.1}]}
    prediction = explain("birds", REQUEST, answer(200, json.dumps(scores).encode()))
    assert (prediction.exit_code, prediction.label) == (0, "hen")


@pytest.mark.parametrize("steps", [5, None, "resize", {"resize": 224}])
def test_steps_of_another_shape_are_no_fault_of_the_answer(steps):
    body = json.dumps({"scores": [{"label": "hen", "probability": 0.9}], "steps": steps}).encode()
    prediction = explain("birds", REQUEST, answer(200, body))
    assert (prediction.label, prediction.steps, prediction.error) == ("hen", (), None)


def test_a_models_own_busy_answer_is_its_error():
    failed = explain("birds", REQUEST, answer(424, **{"ms-azureml-model-error-statuscode": "503"}))
    assert (failed.exit_code, failed.error) == (1, "The model failed (503): because")


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"scores": [{"label": "hen", "probability": 1' + b"0" * 400 + b"}]}",
        b'{"scores": [{"label": "hen", "probability": "much"}]}',
        b'{"scores": [3, null]}',
        b"not json",
    ],
)
def test_a_strange_answer_is_a_sentence(body):
    prediction = explain("birds", REQUEST, answer(200, body))
    assert prediction.exit_code == 1
    assert "see the raw answer" in (prediction.error or "")


@pytest.mark.parametrize("form", ["auto", "image", "tensor"])
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("missing.png", "does not exist"),
        (".", "is a folder"),
        ("/proc/self/mem", "cannot be read: Input/output error"),  # readable by nobody from its start, root or not
        ("file/picture.png", "cannot be read: Not a directory"),
        ("x" * 300, "cannot be read: File name too long"),
    ],
)
def test_a_picture_that_cannot_be_read_is_invalid(form, path, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(Invalid, match=words):
        prepare(Path(path), None, form)
