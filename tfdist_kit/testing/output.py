"""What the workers of a cluster write while a test runs in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from tfdist_kit.launcher import LocalCluster

MOST_SHOWN = 256 * 1024
"""How much of each stream of a rank is shown, in bytes; the rest stays in its log."""
_AROUND = re.compile(
    r'^ +File "(<string>|[^"]*/(_pytest|pluggy|tfdist_kit)/[^"]*)", line|^Extension modules: '
)
_STREAMS: tuple[Literal["stdout", "stderr"], ...] = ("stdout", "stderr")


class Output:
    """What is written from now on.

    Args:
        cluster: By whose workers.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._paths = {
            f"Captured {stream} of {name}": cluster.log(rank, stream)
            for rank, name in enumerate(cluster.names)
            for stream in _STREAMS
        }
        self._begins = {title: _size(path) for title, path in self._paths.items()}

    def written(self) -> dict[str, str]:
        """What has been written up to now, by a title."""
        texts = {title: _text(path, self._begins[title]) for title, path in self._paths.items()}
        return {title: text for title, text in texts.items() if text}


def trimmed(stacks: str) -> str:
    """Stacks, or output with stacks in it, without the calls that lie around a test.

    What native code tells of the current thread repeats what Python has told of it before.
    """
    _, current, rest = stacks.rpartition("Current thread ")
    lines = (current + rest).splitlines()
    return "\n".join(line for line in lines if not _AROUND.search(line))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _text(path: Path, since: int) -> str:
    size = _size(path)
    begin = max(since, size - MOST_SHOWN)
    if size <= since:
        return ""
    with path.open("rb") as file:
        file.seek(begin)
        text = file.read(size - begin).decode("utf-8", "replace")
    left_out = f"... {begin - since} bytes before this are in {path}\n" if begin > since else ""
    return left_out + text
