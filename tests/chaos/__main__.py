"""The command: draws plans, plays them, judges them, and leaves with 1 if one of them failed."""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.chaos import report
from tests.chaos.games import Games
from tests.chaos.plans import FAMILIES, draw

BUILD = Path(__file__).parents[2] / "build" / "chaos"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; the exit code."""
    wanted = _parser().parse_args(arguments)
    names = wanted.plan or list(_names(wanted.counts))
    plans = [draw(wanted.seed, name, wanted.steps) for name in names]
    print(f"seed {wanted.seed}: {len(plans)} plans", flush=True)
    with Games(wanted.seed, BUILD, keep_all=wanted.keep) as games:
        verdicts = games.verdicts(plans, wanted.jobs)
    report.write(BUILD / "report.json", wanted.seed, verdicts)
    print("\n".join(report.table(verdicts)))
    return int(any(verdict.troubles for verdict in verdicts))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--counts", type=_counts, default="term=20,kill=5")
    parser.add_argument("--plan", action="append", help="play this one alone, such as term-3")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1, help="how many plans are played at once")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all plans")
    return parser


def _counts(text: str) -> Mapping[str, int]:
    parts = (part.partition("=") for part in text.split(","))
    counts = {name: int(count) for name, _, count in parts}
    unknown = counts.keys() - FAMILIES.keys()
    if unknown:
        raise argparse.ArgumentTypeError(f"no family of plans is called {', '.join(unknown)}")
    return counts


def _names(counts: Mapping[str, int]) -> Iterator[str]:
    """All plans, the families in turn."""
    for number in itertools.count():
        names = [f"{family}-{number}" for family, count in counts.items() if number < count]
        if not names:
            return
        yield from names


if __name__ == "__main__":
    raise SystemExit(main())
