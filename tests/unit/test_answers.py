"""What an endpoint's answer means: scores or a sentence, and the exit code of the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from footplate.operations.invoke import Request, explain, last_exception, prepare
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
    refused = explain("birds", REQUEST, answer(424, **{"MS-AzureML-Model-Error-StatusCode": "400"}))
    assert refused.error == "The model refused the request (400): because"


def test_json_within_json_text_is_unwrapped_and_noted():
    """Case s02: score.py calls json.dumps, and its server does too."""
    inner = json.dumps({"label": "cat", "scores": [{"label": "cat", "probability": 0.9}]})
    for layers in (1, 2):
        body = inner
        for _ in range(layers):
            body = json.dumps(body)
        prediction = explain("birds", REQUEST, answer(200, body.encode()))
        assert (prediction.label, prediction.probability, prediction.error) == ("cat", 0.9, None)
        assert "JSON within JSON" in prediction.notes[0]
        assert prediction.document()["notes"] == list(prediction.notes)
    assert explain("birds", REQUEST, answer(200, json.dumps(json.dumps(json.dumps(inner))).encode())).label is None
    assert explain("birds", REQUEST, answer(200, inner.encode())).notes == ()


def test_a_label_alone_is_an_answer():
    prediction = explain("birds", REQUEST, answer(200, b'{"label": "\\u001b[2Jcat"}'))
    assert (prediction.error, prediction.exit_code, prediction.probability, prediction.scores) == (None, 0, None, ())
    assert prediction.label == "cat"
    assert prediction.document()["probability"] is None
    assert "without a probability" in prediction.notes[0]


def test_an_error_within_a_200_is_an_error():
    failed = explain("birds", REQUEST, answer(200, b'{"error": "expected 3 channels, got 4"}'))
    assert (failed.exit_code, failed.error) == (1, "The model answered 200 with an error: expected 3 channels, got 4")


LOG = """\
2026-01-01 10:00:00 E [12] azmlinfsrv - Encountered Exception Traceback (most recent call last):
  File "/srv/user_script.py", line 132, in invoke_run
    run_output = self._wrapped_user_run(**run_parameters)
  File "/code/score.py", line 9, in run
    return model(batch)
ValueError: shapes do not fit

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/routes.py", line 1, in handle_score
azureml_inference_server_http.server.user_script.UserScriptException: Caught an unhandled exception
2026-01-01 10:00:00 I [12] gunicorn.access - "POST /score" 500
note: this is no exception
"""


def test_the_scripts_own_exception_is_found_in_a_server_log():
    assert last_exception(LOG) == "ValueError: shapes do not fit."
    assert last_exception(LOG + LOG.replace("shapes do", "channels \x1b[2Jdo")).startswith("ValueError: channels do")
    assert last_exception("all is well\nnote: nothing\n") == ""


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
