"""Names and numbers that more than one room speaks of.

A limit of the contract that no setting changes stands here once.
"""

from __future__ import annotations

from datetime import timedelta

from keel.sizes import MIB, TIB

PERSONAL = "personal"
"""What every `org` argument takes for the caller's own organization."""

AGENT = "rift-agent"
"""The service that a box's agent is in a trace."""
TASK_PREFIX = "task_"
BOX_PREFIX = "b-"
BEARER_PREFIX = "rift_"
REFRESH_PREFIX = "riftr_"
"""What a refresh token begins with: it is no bearer token."""
SESSION_PREFIX = "rifts_"
"""What the secret of a signed-in browser begins with."""
LINK_PREFIX = "riftl_"
"""What the secret of a one-time sign-in link begins with."""
CEREMONY_PREFIX = "riftw_"
"""What the secret of something half done in a browser begins with: a passkey asked for, a way to another sign-in."""
CEREMONY_FOR = timedelta(minutes=5)
"""How long that may take."""
CODE_PREFIX = "riftc_"
"""What an authorization code begins with: a client exchanges it for tokens."""

VERBS = ("fetch", "push", "pr-open", "pr-comment", "pr-status", "issue-read", "ci-status")
"""What a box's `verbs` lists, each a command there (design: Inside a box)."""
DOOR_PORT = 3127
"""Where a jail finds its agent's door, on its own loopback: git's and the verbs' way to the control plane."""

TOUCH_EVERY = timedelta(minutes=1)
"""The activity clock moves at most this often (contract: Tasks, The clocks)."""

OPEN_COMMANDS = 4
"""How many commands of one box may be open at once (contract: Boxes)."""
TIMEOUT_MOST = 259_200
"""The longest run of a command, in seconds: 72 hours."""
BLOCK_MOST = 45
"""The longest that a call waits for a command, in seconds."""
BUDGET_SECONDS = 53.0
"""Every one of the five command tools has answered by then: under the contract's 55 s, with room for the wire."""
OUTPUT_BYTES = 65_536
"""The most output in one answer, shared by its commands."""
TAIL_BYTES = 8_192
"""How much of a command's output stays readable without its box."""
TAILS_KEPT = 64
"""Of how many of a box's last commands the tail is kept."""
COMMAND_BYTES = 131_072
READ_BYTES = 65_536
WRITE_BYTES = 8 * MIB
HEAD_RESTS = timedelta(seconds=60)
"""How long a failure at a head answers for new boxes, before another box is tried."""
POOL_RESTS_MOST = timedelta(hours=1)
"""How long a head's pool rests at most after a failure: as long as boxes have failed by then, one after the other."""
WARM_MOST = 100
"""The most warm boxes of one watched ref."""
BOX_MEMORY = 256 * MIB
"""A host holds one box for so much of its memory, where no setting says how many."""
BOXES_LEAST = 8
"""So many boxes are held by any host, where no setting says how many."""
HOST_HEARD = timedelta(seconds=60)
"""What a worker said of its host longer ago than this is not believed any more."""
FILE_SECONDS = 45
"""How long a read or a write may run in the box."""

SEAL_SECONDS = 30
"""How often records are sealed: the longest that one can be changed without a trace."""
COMMANDS_KEPT = timedelta(days=1)
"""How long the commands of a closed task are kept; their records in the ledger stay (contract: Commands)."""

TAKE_WITHIN = timedelta(minutes=10)
"""A command that no agent took by then never runs."""
SILENT_AFTER = timedelta(seconds=60)
"""An agent that has not been heard for so long has lost its open commands until it comes back."""
NEW_BOX_WAITS = 30.0
"""How long rift_vm_new waits for a box to run, in seconds."""
CLOSE_WAITS = 20.0
"""How long rift_task_close waits for its boxes to be gone, in seconds."""

LIMITS = {
    "memory": (64 * MIB, 64 * TIB),
    "processes": (16, 4_194_304),
    "disk": (64 * MIB, 1024 * TIB),
    "cpu_shares": (10, 100_000),
    "open_files": (64, 1_048_576),
}
"""The least and the most of each limit of a box; of memory and disk in bytes."""
