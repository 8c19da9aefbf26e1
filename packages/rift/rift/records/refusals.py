"""What a look at the records is refused with."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, kind
from rift.people.model import OPERATOR

_NO_SUCH_RECORD = kind("no_such_record", "There is no record {seq}.")
_NOTHING_SEALED = kind("nothing_sealed", "Nothing was recorded yet, so there is no checkpoint.")


def no_such_record(seq: int) -> Refusal:
    """No record of this number: numbers may have gaps."""
    return _NO_SUCH_RECORD(Ask(OPERATOR, "`rift audit ls` lists the records with their numbers"), seq=seq)


def nothing_sealed() -> Refusal:
    """The ledger is empty."""
    return _NOTHING_SEALED(Ask(OPERATOR, "`rift up` begins; the first call is the first record"))
