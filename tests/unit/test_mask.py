"""What of a log's text is masked, and what only looks like a secret."""

from __future__ import annotations

import pytest
from rich.style import Style

from footplate.logs.mask import masked, secrets
from footplate.logs.sanitise import parse_line
from footplate.widgets.log_lines import line_segments, masked_line

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJmb290cGxhdGUifQ.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET https://a.blob.core.windows.net/c/x?sv=1&sig=aB3%2Fcd%2BEf1234567890gh%3D&se=9", "…?sv=1&sig=***&se=9"),
        (
            "AccountName=a;AccountKey=Zm9vdHBsYXRlIGtleQ==;EndpointSuffix=b",
            "AccountName=a;AccountKey=***;EndpointSuffix=b",
        ),
        (f"{{'Authorization': 'Bearer {TOKEN}'}}", "{'Authorization': 'Bearer ***'}"),
        ("authorization: bearer abcdefghijklmnopqrstu", "authorization: bearer ***"),
        (f"AZUREML_RUN_TOKEN={TOKEN}", "AZUREML_RUN_TOKEN=***"),
        ('"MLFLOW_TRACKING_TOKEN": "short-but-12"', '"MLFLOW_TRACKING_TOKEN": "***"'),
        (f"token seen: {TOKEN}", "token seen: ***"),
        ("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "WANDB_API_KEY=***"),
        ("login as hf_abcdefghijklmnopqrstuvwxyz123456", "login as ***"),
        ("git clone https://me:pa55w0rd@example.org/r.git", "git clone https://me:***@example.org/r.git"),
    ],
)
def test_secrets_are_masked(text: str, shown: str) -> None:
    assert masked(text).endswith(shown.removeprefix("…"))


@pytest.mark.parametrize(
    "text",
    [
        "epoch 3 sig=0.9 loss=0.25",
        "sig=0.93456789012345678901234",
        "num_tokens=123456789 pad_token='<|endoftext|>' token_embedding.weight",
        "keys: ['image', 'label'] key=value_of_this_key",
        "access_key: None  password=12345678",
        "the bearer of this",
        "http://localhost:8080/a@b sigma=0.000000000000000000001",
        "",
    ],
)
def test_figures_and_words_stay(text: str) -> None:
    assert masked(text) == text


def test_a_secret_in_several_colours_is_masked_as_one() -> None:
    line = masked_line(parse_line(b"\x1b[31mkey AccountKey=\x1b[32mZm9vdHBs\x1b[33mYXRlIGtleQ==\x1b[0m; after"))
    assert line.text == "key AccountKey=***; after"
    assert "".join(segment.text for segment in line_segments(line, Style())) == line.text


def test_masking_a_masked_text_changes_nothing() -> None:
    once = masked(f"AZUREML_RUN_TOKEN={TOKEN} AccountKey=Zm9vdHBsYXRlIGtleQ==")
    assert masked(once) == once
    assert secrets("AZUREML_RUN_TOKEN=***") == []
