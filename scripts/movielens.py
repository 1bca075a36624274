"""MovieLens 100K: 100,000 ratings of 1,682 films by 943 people, 1997-1998; real, with times.

python scripts/movielens.py

fetches it once (2 MB) and keeps it in a folder; `train_recommender.py` does so by itself. The files
are those that the package recbole 1.2.1 ships as an example (`dataset_example/ml-100k`). pip
downloads that one wheel, without what it depends on, and installs nothing; hashes of the wheel and
of each file are checked. The wheel is under the MIT licence. The data are GroupLens' (University of
Minnesota), under terms of their own: for research, not commercially, not to be passed on without
permission, and with a word about where they are from (F. M. Harper and J. A. Konstan, The MovieLens
Datasets: History and Context, ACM TiiS 5(4), 2015). So they are not a part of this repository.
"""

import collections
import contextlib
import csv
import fcntl
import functools
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

WHEEL = "recbole==1.2.1"
WHEEL_HASH = "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
INSIDE = "recbole/dataset_example/ml-100k/"
FILES = {
    "ml-100k.inter": "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
    "ml-100k.item": "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532",
    "ml-100k.user": "4f670007d9cfbeb9807e757209af1555b9bcc186bde25e767f67cb67c6dd5972",
}
LIKED = 4  # stars, of 5
HELD_OUT = 10  # each person's last ratings
HISTORY = 10  # films that were rated before, at most


@dataclass(frozen=True)
class Lists:
    """A list of ids for each row: all ids in one array, and how many each row has."""

    values: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True)
class MovieLens:
    """All ratings, each person's in the order of time.

    Attributes:
        user, movie: Ids from 1 on, as in the files; one for each rating, as are all below.
        liked: 1 for four stars or five, else 0.
        held_out: Whether it is one of this person's last `HELD_OUT`.
        liked_before, disliked_before: The last films that this person had rated so before; for
            those held out, before the first of these.
        numbers: float32 [ratings, 4]: age, sex, films rated before, years since the film came out.
        occupation, year: Ids of the person's occupation, and of the year of the film.
        genres, words: For each film by its id: its genres, and the words of its title.
        sizes: How many ids there are, by feature.
    """

    user: np.ndarray
    movie: np.ndarray
    liked: np.ndarray
    held_out: np.ndarray
    liked_before: Lists
    disliked_before: Lists
    numbers: np.ndarray
    occupation: np.ndarray
    year: np.ndarray
    genres: Lists
    words: Lists
    sizes: dict[str, int]


def fetch() -> pathlib.Path:
    """The folder that holds the files; they are fetched if it has none. Safe in several processes.

    The folder is `$MOVIELENS_DIR`, else `tfdist-kit/ml-100k` in the user's cache.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = pathlib.Path(
        os.environ.get("MOVIELENS_DIR") or pathlib.Path(cache) / "tfdist-kit" / "ml-100k"
    )
    with _locked(folder):
        if not all((folder / name).exists() for name in FILES):
            _fetch(folder)
    for name, expected in FILES.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != expected:
            raise SystemExit(f"{folder / name} is not the file of {WHEEL}: delete it to fetch anew")
    return folder


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(folder: pathlib.Path) -> None:
    print(f"fetching MovieLens 100K (GroupLens; for research) from the wheel of {WHEEL}")
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        wanted = pathlib.Path(temporary, "wanted.txt")
        wanted.write_text(f"{WHEEL} --hash=sha256:{WHEEL_HASH}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--only-binary=:all:", "--require-hashes"]
        command += ["--dest", temporary, "--requirement", str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(
                f"MovieLens 100K cannot be fetched: pip download {WHEEL} failed\n"
                f"{done.stderr.strip()[-1000:]}\n"
                f"It needs pip and a package index, once; or put {', '.join(FILES)} into {folder}"
            )
        [wheel] = pathlib.Path(temporary).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in FILES:
                pathlib.Path(temporary, name).write_bytes(archive.read(INSIDE + name))
                pathlib.Path(temporary, name).replace(folder / name)


@functools.cache
def load() -> MovieLens:
    """Read the files; the same in every process."""
    folder = fetch()
    people = {int(one[0]): one for one in _rows(folder / "ml-100k.user")}
    films = {int(one[0]): one for one in _rows(folder / "ml-100k.item")}
    people_in_order = [people.get(one, [""] * 5) for one in range(max(people) + 1)]
    films_in_order = [films.get(one, [""] * 4) for one in range(max(films) + 1)]
    user, movie, stars, time = np.array(_rows(folder / "ml-100k.inter"), float).astype(int).T
    order = np.lexsort([time, user])  # ties as in the file
    user, movie, stars, time = user[order], movie[order], stars[order], time[order]
    held_out, liked_before, disliked_before, count = _histories(user, movie, stars >= LIKED)
    occupation, occupations = _lists([[one[3]] for one in people_in_order])
    year, years = _lists([[film[2]] for film in films_in_order])
    genres, genre_count = _lists([film[3].split() for film in films_in_order])
    titles = [re.findall(r"\w+", film[1].lower()) for film in films_in_order]
    words, word_count = _lists(titles, often=2)
    came_out = np.array([int(film[2]) if film[2].isdigit() else 0 for film in films_in_order])
    age_of_film = np.where(came_out[movie], 1970 + time / 31_556_952 - came_out[movie], 0)
    numbers = [
        np.array([int(one[1] or 0) for one in people_in_order])[user] / 40 - 1,
        np.array([one[2] == "M" for one in people_in_order])[user],
        np.log1p(count) / 3 - 1,
        age_of_film / 20,
    ]
    return MovieLens(
        user=user,
        movie=movie,
        liked=(stars >= LIKED).astype("float32"),
        held_out=held_out,
        liked_before=liked_before,
        disliked_before=disliked_before,
        numbers=np.stack(numbers, axis=1).astype("float32"),
        occupation=occupation.values[user],
        year=year.values[movie],
        genres=genres,
        words=words,
        sizes={
            "user": max(people) + 1,
            "movie": max(films) + 1,
            "occupation": occupations,
            "year": years,
            "genres": genre_count,
            "words": word_count,
        },
    )


def _rows(path: pathlib.Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]


def _lists(rows: Sequence[Sequence[str]], often: int = 1) -> tuple[Lists, int]:
    """Words as numbers from 1 on, 0 for those less `often`; and how many numbers there are."""
    counts = collections.Counter(word for row in rows for word in row)
    known = sorted(word for word, count in counts.items() if count >= often)
    ids = {word: number for number, word in enumerate(known, start=1)}
    values = np.array([ids.get(word, 0) for row in rows for word in row])
    return Lists(values, np.array([len(row) for row in rows])), len(ids) + 1


def _histories(
    user: np.ndarray, movie: np.ndarray, liked: np.ndarray
) -> tuple[np.ndarray, Lists, Lists, np.ndarray]:
    """What is held out; films liked and disliked before; and how many were rated before."""
    held_out, count = np.zeros(len(user), bool), np.zeros(len(user), int)
    values: tuple[list[int], list[int]] = ([], [])
    lengths: tuple[list[int], list[int]] = ([], [])
    for person in np.unique(user):
        first, end = np.searchsorted(user, [person, person + 1])
        held_out[end - HELD_OUT : end] = True
        seen: tuple[list[int], list[int]] = ([], [])
        for place in range(first, end):
            for kind, films in enumerate(seen):
                values[kind].extend(films[-HISTORY:])
                lengths[kind].append(min(len(films), HISTORY))
            count[place] = len(seen[0]) + len(seen[1])
            if not held_out[place]:
                seen[0 if liked[place] else 1].append(movie[place])
    liked_before, disliked_before = (
        Lists(np.array(values[kind]), np.array(lengths[kind])) for kind in (0, 1)
    )
    return held_out, liked_before, disliked_before, count


if __name__ == "__main__":
    print(f"MovieLens 100K is in {fetch()}")
