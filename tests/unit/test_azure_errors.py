"""What Azure answers becomes one plain sentence with a next step; nothing secret is in it."""

from __future__ import annotations

import json

import pytest

from footplate.azure import errors
from footplate.azure.masking import mask
from footplate.workspace import (
    Conflict,
    Invalid,
    NotAllowed,
    NotFound,
    NotSignedIn,
    QuotaExceeded,
    Throttled,
    Unexpected,
    Unreachable,
)

JWT = "eyJ0eXAiOiJKV1QiLCJhbGciOi.eyJhdWQiOiJodHRwczovL21s.c2lnbmF0dXJl"
SAS = "https://acct.blob.core.windows.net/c/log.txt?sv=2024-01-01&se=2026-12-01T00%3A00%3A00Z&sig=a%2Bb%2Fc%3D&sp=r"

WS = "Microsoft.MachineLearningServices/workspaces"


def answer(status: int, code: str = "", message: str = "", *details: tuple[str, str], **headers: str):
    error = {"code": code, "message": message, "details": [{"code": c, "message": m} for c, m in details]}
    return errors.from_answer(status, headers, json.dumps({"error": error}).encode(), "job 'birds'", "workspace 'ws'")


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        (answer(401, "InvalidAuthenticationToken", "The token is old."), NotSignedIn, "did not take the sign-in"),
        (answer(404, "UserError", "x", ("NotFound", "Job birds not found.")), NotFound, "no job 'birds' in workspace 'ws'"),
        (answer(404, "SubscriptionNotFound", "…"), NotFound, "no such subscription"),
        (answer(404, "ResourceGroupNotFound", "…"), NotFound, "no such resource group"),
        (
            answer(404, "ResourceNotFound", f"The Resource '{WS}/wx' under resource group 'rg' was not found."),
            NotFound,
            "no Azure ML workspace 'wx'",
        ),
        (
            answer(404, "ResourceNotFound", f"The Resource '{WS}/wx/computes/c' was not found."),
            NotFound,
            "There is no job 'birds'",
        ),
        (answer(409, "Conflict", "It is being updated."), Conflict, "refuses this for job 'birds': It is being updated."),
        (answer(400, "EndpointNameAlreadyExists", "The name is taken."), Conflict, "The name is taken"),
        (answer(412, "PreconditionFailed", "etag"), Conflict, "refuses this"),
        (answer(400, "BadRequest", "The request is invalid.", ("BadArgument", "lr is no number")), Invalid, "lr is no number."),
        (answer(500, "InternalServerError", "Received 500"), Unreachable, "answered 500"),
        (answer(503), Unreachable, "answered 503"),
        (answer(408), Unreachable, "answered 408"),
    ],
)  # fmt: skip
def test_a_status_becomes_its_kind_of_error(given, kind, words):
    assert type(given) is kind
    assert words in given.sentence
    assert given.sentence.endswith(".")
    assert given.next_step.endswith(".")


def test_a_missing_permission_names_action_scope_and_role():
    said = (
        "The client 'me@example.org' with object id '00' does not have authorization to perform action "
        "'Microsoft.MachineLearningServices/workspaces/{}' over scope '/subscriptions/1/resourceGroups/rg' or the scope is invalid."
    )
    computes = answer(403, "AuthorizationFailed", said.format("computes/write"))
    assert type(computes) is NotAllowed
    assert (
        computes.sentence
        == "You lack the permission Microsoft.MachineLearningServices/workspaces/computes/write on rg."
    )
    assert "AzureML Compute Operator" in computes.next_step
    assert "role Reader" in answer(403, "AuthorizationFailed", said.format("jobs/read")).next_step
    assert "AzureML Data Scientist" in answer(403, "AuthorizationFailed", said.format("jobs/write")).next_step
    assert computes.exit_code == 4


def test_quota_tells_asked_used_and_limit():
    said = "Operation results in exceeding quota limits of Core. Maximum allowed: 24, Current in use: 12, Additional requested: 48."
    for status, code in ((400, "ClusterCoreQuotaReached"), (409, "QuotaExceeded"), (200, "ClusterCoreQuotaReached")):
        error = answer(status, code, said)
        assert type(error) is QuotaExceeded
        assert "asked 48, used 12, limit 24" in error.sentence


def test_throttling_tells_how_long():
    error = answer(429, "TooManyRequests", "throttled", **{"Retry-After": "17"})
    assert type(error) is Throttled
    assert (error.retry_after, error.next_step) == (17.0, "Next try in 17 seconds.")
    assert answer(429, **{"retry-after-ms": "2500"}).retry_after == 2.5
    assert answer(429, **{"Retry-After": "Tue, 01 Dec 2026 00:00:00 GMT"}).retry_after == 1.0


def test_json_inside_json_is_unwrapped_to_the_cause():
    innermost = json.dumps({"error": {"code": "ImageBuildFailed", "message": "conda found no package birds==9"}})
    middle = json.dumps(
        {"error": {"code": "UserError", "message": "Failed", "details": [{"code": "X", "message": innermost}]}}
    )
    error = answer(400, "BadRequest", middle)
    assert "conda found no package birds==9" in error.sentence
    assert "{" not in error.sentence
    deep = '{"error": {"message": "top", "innerError": ' + '{"innerError": ' * 500 + "null" + "}" * 502
    assert errors.read_fault(deep.encode()).cause == "top"


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe", b"<html>gateway</html>", b"[1]", b"null", b'{"error": null}', b'{"error": "no"}', b'{"error": [1]}',
     b'{"error": {"message": 3, "details": 4, "additionalInfo": 5}}', b"[" * 100_000, b'{"message": "plain"}'],
)  # fmt: skip
def test_no_body_is_too_strange(body):
    for status in (400, 401, 403, 404, 409, 429, 500, 302):
        error = errors.from_answer(status, {}, body, "job 'birds'")
        assert error.sentence.endswith((".", "!", "?"))


def test_storage_and_mlflow_tell_their_codes_too():
    xml = b'\xef\xbb\xbf<?xml version="1.0"?><Error><Code>AuthorizationFailure</Code><Message>No.\nRequestId:1</Message></Error>'
    fault = errors.read_fault(xml)
    assert (fault.codes, fault.cause) == (("AuthorizationFailure",), "No.")
    mlflow = errors.read_fault(b'{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Run x not found"}')
    assert (mlflow.codes, mlflow.cause) == (("RESOURCE_DOES_NOT_EXIST",), "Run x not found")
    history = errors.read_fault(
        b'{"error": {"code": "UserError", "message": "no"}, "correlation": {"operation": "abc"}}'
    )
    assert history.correlation == "abc"


def test_failures_of_the_network_are_told_apart():
    address = "https://management.azure.com/x"
    for text, words in (
        ("certificate verify failed", "certificate of management.azure.com is not trusted"),
        ("Cannot connect: Name or service not known", "no host management.azure.com"),
        ("Connection timeout to host", "did not answer in time"),
        ("Connect call failed ('127.0.0.1', 1)", "cannot be reached"),
    ):
        error = errors.from_failure(OSError(text), address)
        assert isinstance(error, Unreachable)
        assert words in error.sentence
    page = errors.not_json(b"<html>log in</html>", "jobs", address)
    assert isinstance(page, Unexpected)
    assert "web page" in page.sentence


@pytest.mark.parametrize(
    "text",
    [
        f"GET {SAS} failed",
        f"Authorization: Bearer {JWT}",
        f"token {JWT} refused",
        '{"primaryKey": "verysecretvalue"}',
        "AccountKey=verysecretvalue;EndpointSuffix=core.windows.net",
        '"accessToken":"verysecretvalue"',
        "client_secret=verysecretvalue&scope=x",
        "?sv=1&sig=verysecretvalue",
    ],
)
def test_nothing_secret_passes_the_mask(text):
    masked = mask(text)
    for secret in ("a%2Bb", "c2lnbmF0dXJl", "verysecretvalue", "eyJhdWQ"):
        assert secret not in masked
    error = errors.from_answer(400, {}, json.dumps({"error": {"code": "X", "message": text}}).encode(), "job 'b'")
    for secret in ("a%2Bb", "c2lnbmF0dXJl", "verysecretvalue", "eyJhdWQ"):
        assert secret not in f"{error} {error.raw}"


def test_the_mask_leaves_plain_text_as_it_is():
    text = "Unknown compute target 'gpu'. See https://aka.ms/x?view=azureml-2 and the design (sig. 3)."
    assert mask(text) == text
