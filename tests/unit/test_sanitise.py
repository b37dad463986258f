"""What text from outside looks like once it is safe to show."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from footplate.logs.sanitise import DISPLAY_LIMIT, PLAIN, Style, clean, parse_line, size_text

CASES = Path(__file__).parents[3] / "shared" / "cases" / "logs"


def case_lines(name: str) -> list[bytes]:
    path = CASES / name
    if not path.exists():
        pytest.skip(f"the case {name} is not here")
    data = path.read_bytes()
    return data.removesuffix(b"\n").split(b"\n") if data else []


def shown(name: str) -> list[str]:
    return [parse_line(raw).text for raw in case_lines(name)]


def harmless(text: str) -> bool:
    return not any(unicodedata.category(char) in ("Cc", "Cs") or char in "\u202e\u2066\u2028" for char in text)


@pytest.mark.parametrize(
    "evil",
    [
        "\x1b]52;c;QUJD\x07",
        "\x1b]52;c;QUJD\x1b\\",
        "\x9d52;c;QUJD\x9c",
        "\x1b]0;title\x07",
        "\x1bkscreen title\x1b\\",
        "\x1bPq#0;2;0;0;0\x1b\\",
        "\x1b_Gf=100;AAAA\x1b\\",
        "\x1b^private\x1b\\",
        "\x1bXstring\x1b\\",
        "\x1b[2J",
        "\x1b[10;10H",
        "\x1b[?1049h",
        "\x9b2J",
        "\x1b[>4;1m",
        "\x1b[ q",
        "\x1b(0",
        "\x1bc",
        "\x07\x08\x00\x7f",
        "\u202e\u2066\u200f",
    ],
)
def test_no_control_survives_and_the_text_around_it_does(evil: str) -> None:
    assert clean(f"before{evil}|after") == "before|after"
    line = parse_line(f"before{evil}|after".encode())
    assert line.text == "before|after"
    assert line.removed


def test_every_pair_of_escape_and_byte_is_harmless() -> None:
    for first in ("\x1b", "\x1b[", "\x1b]", "\x1bP", "\x9b", "\x9d", "\x90"):
        for code in range(0x250):
            text = f"{first}{chr(code)}rest"
            assert harmless(clean(text)), ascii(text)
            assert harmless(parse_line(text.encode()).text), ascii(text)


def test_a_clean_label_is_one_line() -> None:
    assert clean("two\r\nlines\tand a tab\n") == "two lines and a tab"
    assert clean("osc \x1b]0;never ended\nnext line") == "osc  next line"


def test_clean_keeps_scripts_and_emoji_and_replaces_lone_surrogates() -> None:
    assert clean("学習率 학습 مرحبا שלום é 🚀 [bold]") == "学習率 학습 مرحبا שלום é 🚀 [bold]"
    assert clean("file\udcff.png") == "file\ufffd.png"


def test_marks_whose_width_terminals_dispute_are_dropped() -> None:
    assert clean("👨\u200d👩\u200d👧 ❤\ufe0f 👍🏽 🇯🇵") == "👨👩👧 ❤ 👍 🇯🇵"
    assert clean("नमस्\u200dते") == "नमस्\u200dते", "a joiner between letters is spelling"


def test_crlf_lines_have_no_stray_marks() -> None:
    lines = [parse_line(raw) for raw in case_lines("l01_crlf.log")]
    assert [line.text for line in lines][:2] == ["epoch 0 loss 1.0000", "epoch 1 loss 0.5000"]
    assert len(lines) == 6
    assert not any(line.removed for line in lines)


def test_a_progress_bar_shows_its_last_state() -> None:
    assert shown("l02_progress_cr.log") == [
        "start",
        "100%|██████████| 20/20 [00:10<00:00, 1.9it/s]",
        "epoch 0 done val_accuracy=0.5000",
        "100%|██████████| 20/20 [00:10<00:00, 1.9it/s]",
        "epoch 1 done val_accuracy=0.7500",
    ]


def test_colours_stay_and_screen_commands_go() -> None:
    lines = [parse_line(raw) for raw in case_lines("l04_ansi_colours.log")]
    assert lines[0].spans == (("ERROR", Style(foreground=1)), (" red", PLAIN))
    assert lines[1].spans == (("WARN", Style(foreground=208, bold=True)), (" 256", PLAIN))
    assert lines[2].spans == (("truecolor", Style(foreground=(10, 200, 90))), (" plain", PLAIN))
    assert lines[3].text == "after clear and alt screen"
    assert lines[4].text == "moved"
    assert (lines[5].text, lines[5].removed) == ("unterminated ", True)
    assert lines[6].spans == (("next line plain", PLAIN),)
    assert [line.removed for line in lines] == [False, False, False, True, True, True, False]


@pytest.mark.parametrize(
    ("codes", "style"),
    [
        ("1;2;3;4;7", Style(bold=True, dim=True, italic=True, underline=True, reverse=True)),
        ("1;22", PLAIN),
        ("4:3", Style(underline=True)),
        ("4:0", PLAIN),
        ("97;100", Style(foreground=15, background=8)),
        ("48;5;17", Style(background=17)),
        ("38:2::1:2:3", Style(foreground=(1, 2, 3))),
        ("38:5:9", Style(foreground=9)),
        ("38;2;999;0;0", Style(foreground=(255, 0, 0))),
        ("31;38;5;9;1", Style(foreground=9, bold=True)),
        ("31;39", PLAIN),
        ("31;", PLAIN),
        ("38;5", PLAIN),
        ("9" * 5000, PLAIN),
    ],
)
def test_sgr(codes: str, style: Style) -> None:
    assert parse_line(f"\x1b[{codes}mtext".encode()).spans == (("text", style),)


def test_clipboard_title_and_link_sequences_leave_only_their_text() -> None:
    assert shown("l05_osc52.log") == ["before", "after osc52 bel", "after osc52 st", "title", "link text end"]
    assert all(parse_line(raw).removed for raw in case_lines("l05_osc52.log")[1:])


def test_invalid_utf8_becomes_replacement_marks() -> None:
    texts = shown("l07_invalid_utf8.log")
    assert texts[0] == "ok line"
    assert texts[1] == "caf\ufffd latin-1"
    assert texts[-1] == "last line \ufffd"
    assert len(texts) == 7
    assert all("\ufffd" in text for text in texts[1:])


def test_markup_is_text() -> None:
    raw = case_lines("l13_markup_brackets.log")
    assert shown("l13_markup_brackets.log") == [line.decode() for line in raw]


def test_interleaved_ranks_and_tracebacks_are_shown_as_they_are() -> None:
    for name in ("l10_interleaved_ranks.log", "l16_torchrun_failure.log"):
        assert shown(name) == [line.decode() for line in case_lines(name)]


def test_wide_lines_keep_their_letters() -> None:
    assert shown("l11_wide_chars.log")[:5] == [
        "emoji 🚀 ok",
        "family 👨👩👧 zwj",
        "heart ❤ vs16 warn ⚠",
        "cjk 学習率 损失 0.5",
        "hangul 학습",
    ]


def test_a_very_long_line_is_cut_and_counted() -> None:
    line = parse_line(case_lines("l08_one_mb_line.log")[1])
    assert len(line.text) == DISPLAY_LIMIT
    assert line.cut == len(case_lines("l08_one_mb_line.log")[1]) - DISPLAY_LIMIT


def test_a_cut_leaves_no_half_character() -> None:
    line = parse_line(b"x" * (DISPLAY_LIMIT - 1) + "é".encode() + b"rest")
    assert line.text == "x" * (DISPLAY_LIMIT - 1)
    assert line.cut == 5


def test_tabs_go_to_the_next_stop() -> None:
    assert parse_line(b"ab\tc\t\x1b[1md").text == "ab      c       d"


def test_last_state_wins_even_when_blank() -> None:
    assert parse_line(b"10%\r20%\r").text == "20%"
    assert parse_line(b"10%\r   \rdone\r\n").text == "done"
    assert parse_line(b"\r\n").spans == ()


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_400, "999 kB"), (999_600, "1.0 MB"), (14_200_000, "14 MB")],
)
def test_size_text(count: int, text: str) -> None:
    assert size_text(count) == text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_utf_16_of_windows_is_readable(encoding: str) -> None:
    lines = [parse_line(raw) for raw in "hello there\r\nlr 0.1, step 2\r\n".encode(encoding).split(b"\n")]
    assert [line.text for line in lines] == ["hello there", "lr 0.1, step 2", ""]
    assert not any(line.removed for line in lines[:2])


def test_an_erased_line_is_what_came_after() -> None:
    line = parse_line(b"\r\x1b[2K 10%\x1b[2K\x1b[K\x1b[32m 20%\x1b[0m\x1b[K")
    assert (line.text, line.removed) == (" 20%", False)
    assert parse_line(b"download 100%\r\x1b[K").text == ""
