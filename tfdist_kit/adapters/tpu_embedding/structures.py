"""Is what is given built like ``feature_config``? If not, where does it differ?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorflow.python.util import nest

from tfdist_kit._errors import UsageError

ALONE = "(the only one)"
"""The name of a feature that is the whole of ``feature_config``."""


def named_features(config: Any) -> list[tuple[str, Any]]:
    """The flattened features, each with its name for errors: its path in ``feature_config``."""
    return [(path or ALONE, each) for path, each in nest.flatten_with_joined_string_paths(config)]


def flattened(config: Any, given: Any, what: str) -> list[Any]:
    """The leaves of a structure that is built like the config's.

    Args:
        config: The embedding's ``feature_config``.
        given: The structure.
        what: What it is, for the error.

    Raises:
        UsageError: Another number of parts, or other keys.
        TypeError: Parts of another type.
    """
    try:
        nest.assert_same_structure(config, given)
    except (TypeError, ValueError) as error:
        where = _difference(config, given, what) or f"{what}: {error}"
        hint = "give the same nested structure as feature_config"
        problem = UsageError(where, hint=hint)
        # TensorFlow's documentation has a TypeError for a part of another type.
        raise (problem if isinstance(error, ValueError) else TypeError(str(problem))) from error
    return list(nest.flatten(given))


def _difference(config: Any, given: Any, path: str) -> str:
    if nest.is_nested(config) != nest.is_nested(given):
        return f"{path} is {_kind(given)}, where feature_config has {_kind(config)}"
    if not nest.is_nested(config):
        return ""
    if isinstance(config, Mapping) and isinstance(given, Mapping):
        missing, extra = sorted(set(config) - set(given)), sorted(set(given) - set(config))
        if missing or extra:
            texts = (
                f"lacks {missing}" if missing else "",
                f"has {extra} too many" if extra else "",
            )
            return f"{path} {' and '.join(text for text in texts if text)}"
        pairs = [(f"{path}[{key!r}]", config[key], given[key]) for key in config]
    elif isinstance(config, (list, tuple)) and isinstance(given, (list, tuple)):
        if len(config) != len(given):
            return f"{path} has {len(given)} parts, where feature_config has {len(config)}"
        pairs = [(f"{path}[{i}]", *both) for i, both in enumerate(zip(config, given, strict=True))]
    else:
        return f"{path} is {_kind(given)}, where feature_config has {_kind(config)}"
    found = (_difference(mine, theirs, where) for where, mine, theirs in pairs)
    return next((text for text in found if text), "")


def _kind(thing: Any) -> str:
    name = type(thing).__name__.strip("_").removesuffix("Wrapper").lower()
    return f"a {name}" if nest.is_nested(thing) else f"one {type(thing).__name__}"
