"""What a change of limits is refused with."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, kind
from rift.limits.model import bounds, option
from rift.people.model import OPERATOR

_BAD_LIMIT = kind("bad_limit", "{option} takes {bounds}, and {value} is not one. Nothing was changed.")
_EXAMPLES = {"memory": "512MiB", "processes": "256", "disk": "1GiB", "cpu_shares": "1024", "open_files": "1024"}


def bad_limit(name: str, value: str, repo: str) -> Refusal:
    """No number, or one that is out of bounds."""
    again = f"`rift repo limits {repo} {option(name)} {_EXAMPLES[name]}`, for example"
    return _BAD_LIMIT(Ask(OPERATOR, again), value=value or "an empty text", option=option(name), bounds=bounds(name))
