"""The ledger: one append-only row for every decision, sealed in Merkle trees under signed and chained checkpoints.

append      one row, written in the transaction that decided
canonical   the bytes of a row that are hashed (pure)
merkle      trees and inclusion proofs of RFC 9162 (pure)
checkpoint  what is signed, and how each names the one before (pure)
proof       one row's proof, made and checked without the database (pure)
keys        the folder of keys: the private one of now, the public ones of all times
seal        rows → leaves and a checkpoint
faults      what can be wrong, and one tree compared with its rows (pure)
verify      everything recomputed from the rows, and what is wrong named
store       the SQL of reading and sealing
manifest    what an archived month holds, and the signed word for it (pure)
archive     a month to a file, recorded, and out of the ledger; archive_file writes and checks the file, archive_store
            is the SQL, archived the part of a check that is about archives
"""

from keel.ledger.append import Record, append, append_all, have_months, let_read

__all__ = ["Record", "append", "append_all", "have_months", "let_read"]
