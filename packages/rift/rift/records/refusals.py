"""What a look at the records is refused with."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, Retry, kind
from rift.people.model import OPERATOR

_NO_SUCH_RECORD = kind("no_such_record", "There is no record {seq}.")
_NOTHING_SEALED = kind("nothing_sealed", "Nothing was recorded yet, so there is no checkpoint.")
_NOT_SEALED = kind(
    "not_sealed", "Record {seq} is not sealed yet, so there is no proof of it: that takes {seconds} seconds."
)
_NOTHING_TO_ERASE = kind("nothing_to_erase", "There is no task {task} whose texts you may erase.")


def no_such_record(seq: int) -> Refusal:
    """No record of this number: numbers may have gaps."""
    return _NO_SUCH_RECORD(Ask(OPERATOR, "`rift audit ls` lists the records with their numbers"), seq=seq)


def nothing_sealed() -> Refusal:
    """The ledger is empty."""
    return _NOTHING_SEALED(Ask(OPERATOR, "`rift up` begins; the first call is the first record"))


def not_sealed(seq: int, seconds: int) -> Refusal:
    """Written a moment ago: a worker seals what is new every so many seconds."""
    return _NOT_SEALED(Retry(seconds), seq=seq, seconds=seconds)


def nothing_to_erase(task: str) -> Refusal:
    """Not there and not theirs are one refusal."""
    return _NOTHING_TO_ERASE(Ask("yourself", "/app/audit shows the records that you may read"), task=task)
