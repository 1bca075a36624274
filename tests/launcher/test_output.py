"""What becomes of a worker's bytes: in its file, and on the console."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tfdist_kit.launcher.output.console import Console
from tfdist_kit.launcher.output.lines import MAX_LINE, Lines, StreamLog
from tfdist_kit.launcher.output.shown import Prefixed


def feed_all(*chunks: bytes, now: float = 0.0) -> bytes:
    lines = Lines()
    return b"".join(lines.feed(chunk, now) for chunk in chunks) + lines.flush()


@pytest.mark.parametrize(
    ("chunks", "shown"),
    [
        ([b"a\nb\n"], b"a\nb\n"),
        ([b"a", b"b\nc", b"\n"], b"ab\nc\n"),
        ([b"no newline"], b"no newline\n"),
        ([b"\n\n"], b"\n\n"),
        ([b"windows\r\nline\r\n"], b"windows\nline\n"),
        ([b"10%\r50%\r100%\ndone\n"], b"100%\ndone\n"),
        ([b"10%\r", b"50%\r", b"100%", b"\n"], b"100%\n"),
        ([b"10%", b"\r", b"\n"], b"10%\n"),
        ([b"x\r50%\r"], b"50%\n"),
        (["ä".encode()[:1], "ä".encode()[1:] + b"\n"], "ä\n".encode()),
    ],
)
def test_lines_are_what_a_terminal_would_show(chunks: list[bytes], shown: bytes) -> None:
    assert feed_all(*chunks) == shown


def test_any_cut_of_the_stream_gives_the_same_lines() -> None:
    stream = "eins\nzwei ü\r\n10%\r20%\r30%\n\nlast €".encode()
    expected = feed_all(stream)
    for cut in range(len(stream)):
        assert feed_all(stream[:cut], stream[cut:]) == expected


def test_a_progress_bar_shows_now_and_then() -> None:
    lines = Lines()
    shown = [lines.feed(b"%d\r" % step, now=100.0 + step) for step in range(12)]
    assert [line for line in shown if line] == [b"0\n", b"5\n", b"10\n"]


def test_an_endless_line_is_cut_between_characters() -> None:
    lines = Lines()
    pieces = b""
    for _ in range(40):
        pieces += lines.feed("€".encode() * 10_000, 0.0)
    pieces += lines.flush()
    assert all(len(piece) <= MAX_LINE for piece in pieces.split(b"\n"))
    assert pieces.decode().replace("\n", "") == "€" * 400_000


def test_an_endless_progress_bar_needs_no_memory() -> None:
    lines = Lines()
    for step in range(10_000):
        lines.feed(b"\r" + b"%05d" % step * 20, 0.0)
    assert len(lines._rest) < 1000


def read_all(fd: int) -> bytes:
    data = b""
    while chunk := os.read(fd, 65536):
        data += chunk
    return data


def stream_log(
    path: Path, console: Console, fd: int, prefix: bytes, *, timestamps: bool = False
) -> StreamLog:
    return StreamLog(path, Prefixed(prefix, fd, None, console, timestamps))


def test_prefixes_and_files(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    console = Console()
    log = stream_log(tmp_path / "log", console, writer, b"[rank 3] ")
    log.feed(b"one\ntw")
    log.feed(b"o\nbad \xff byte\n10%\r20%\nrest")
    log.close()
    console.close(5)
    os.close(writer)
    with open(reader, "rb") as file:
        shown = file.read().decode()
    assert shown == (
        "[rank 3] one\n[rank 3] two\n[rank 3] bad \ufffd byte\n[rank 3] 20%\n[rank 3] rest\n"
    )
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\nbad \xff byte\n10%\r20%\nrest"


def test_a_terminal_that_does_not_read_fills_the_queue_and_loses_nothing() -> None:
    reader, writer = os.pipe()
    console = Console()
    block = b"x" * 99 + b"\n"
    sent = 0
    for _ in range(1000):
        if console.is_full:
            break
        console.write(writer, block * 1000)
        sent += 1000
    assert sent < 1000 * 1000
    received: list[bytes] = []
    thread = threading.Thread(target=lambda: received.append(read_all(reader)))
    thread.start()
    console.close(10)
    os.close(writer)
    thread.join(10)
    os.close(reader)
    assert received[0] == block * sent


def test_a_reader_that_has_gone_does_not_stop_the_other_stream(tmp_path: Path) -> None:
    gone_reader, gone = os.pipe()
    os.close(gone_reader)
    reader, writer = os.pipe()
    console = Console()
    console.write(gone, b"lost\n")
    console.write(writer, b"kept\n")
    console.close(5)
    os.close(writer)
    os.close(gone)
    assert read_all(reader) == b"kept\n"
    os.close(reader)


def test_timestamps(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    console = Console()
    before = time.strftime("%H:%M")
    log = stream_log(tmp_path / "log", console, writer, b"[rank 0] ", timestamps=True)
    log.feed(b"hi\n")
    log.close()
    after = time.strftime("%H:%M")
    console.close(5)
    os.close(writer)
    shown = read_all(reader).decode()
    os.close(reader)
    assert shown[:5] in (before, after)
    assert shown[12:] == " [rank 0] hi\n"


def test_output_that_cannot_be_kept_is_still_shown(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    console = Console()
    log = stream_log(Path("/dev/full"), console, writer, b"")
    with pytest.raises(OSError, match="No space left"):
        log.feed(b"one\n")
    log.feed(b"two\n")
    log.close()
    console.close(5)
    os.close(writer)
    assert read_all(reader) == b"one\ntwo\n"
    os.close(reader)
