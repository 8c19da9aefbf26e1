"""Why a look at the records is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keel.refusal import Refusal, Retry, Stop
from onbe.catalogue import reason
from onbe.records.model import Problem

_INVALID_QUERY = reason("invalid_query", "The query was not taken: {errors}.")
_RECORD_UNKNOWN = reason("record_unknown", "There is no record {seq}.")
_RECORD_UNSEALED = reason("record_unsealed", "Record {seq} is not sealed yet; it will be within {seconds} s.")
_RECORD_ARCHIVED = reason("record_archived", "Record {seq} went to the archive of {month}; that file proves it.")


class Listed(tuple[Mapping[str, str], ...]):
    """All that is wrong, for programs; it reads as a sentence where a sentence is wanted."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return "; ".join(f"{one['parameter']} {one['detail']}" for one in self)


def invalid_query(problems: Sequence[Problem]) -> Refusal:
    """Parameters that are not taken: all of them at once."""
    return _INVALID_QUERY(
        Stop(), errors=Listed({"parameter": one.parameter, "detail": one.sentence} for one in problems)
    )


def record_unknown(seq: int) -> Refusal:
    """No record of this number: numbers may have gaps."""
    return _RECORD_UNKNOWN(Stop(), seq=seq)


def record_unsealed(seq: int, seconds: int) -> Refusal:
    """A record that no checkpoint speaks of yet."""
    return _RECORD_UNSEALED(Retry(seconds), seq=seq, seconds=seconds)


def record_archived(seq: int, month: str) -> Refusal:
    """A record whose row stands in a file."""
    return _RECORD_ARCHIVED(Stop(), seq=seq, month=month)
