"""The contract's numbers and names, each once. Sources: seed 002; RFC 6749, 7523, 8693, 9068."""

from __future__ import annotations

from datetime import timedelta

PORT = 7434

TASK_ENDING = timedelta(seconds=5)
"""A task with this much left or less is refused a token (seed: Two clocks, not one; check 4)."""
SPONSOR_ANSWER_LIFE = timedelta(seconds=30)
"""The longest that an answer about a person is used again, where the token about to be issued lives longer."""

SKEW = timedelta(seconds=60)
"""How far another's clock may differ from ours."""
ASSERTION_LIFE = timedelta(minutes=5)
"""How far ahead an agent's assertion may expire."""
INSTANCE_LENGTH = 128
JTI_LENGTH = 256
SPONSOR_LENGTH = 256
"""The most characters of a person's key."""
SCOPE_LENGTH = 8 * 1024
RESOURCE_LENGTH = 2 * 1024
BODY_BYTES = 64 * 1024
"""The most bytes of a form."""
ADMIN_KEY_LENGTH = 32
"""The fewest characters of an admin key."""
AGENT_ID = "[a-z0-9][a-z0-9._-]{0,63}"
"""The grammar of an agent's id: safe in a path, a file's name and a log, and no two that differ in case alone."""
RESERVED_IDS = ("admin", "cli", "sweeper")
"""What else stands where a record names an agent."""
DISPLAY_LENGTH = 100
BLOCK_REASON_LENGTH = 500
SCOPES_MOST, SCOPE_TOKEN_LENGTH = 100, 100
AUDIENCES_MOST, URI_LENGTH = 100, 500
KEYS_MOST, KID_LENGTH = 20, 256
RSA_LEAST, RSA_MOST = 2048, 8192
"""Bits of a modulus. More would be slow to verify with, and it is an agent who chooses."""
DEPTH_LEAST, DEPTH_MOST = 1, 5
"""Bounds of a registration's max_delegation_depth; 1 is an agent that acts for a person, and for no other agent."""

TASK_PREFIX = "task_"
TASK_ID = "task_[0-9A-HJKMNP-TV-Z]{26}"
"""The grammar of a task's id: the prefix and a ULID."""
JTI_PREFIX = "tok_"
GRANT_PREFIX = "task_grant_"

ISSUED_TYP = "at+jwt"
"""The `typ` of the tokens that we issue (RFC 9068)."""

ENDPOINT = "/oauth2/token"
"""Where tokens are given."""
REVOKE_PATH = "/oauth2/revoke"
INTROSPECT_PATH = "/oauth2/introspect"

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
REFRESH = "refresh_token"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ISSUED_AS = "urn:ietf:params:oauth:token-type:access_token"
"""The `issued_token_type` of an exchange's answer (RFC 8693, 3)."""
SUBJECT_TYPES = (
    ISSUED_AS,
    "urn:ietf:params:oauth:token-type:id_token",
    "urn:ietf:params:oauth:token-type:jwt",
)
"""The `subject_token_type`s that are taken."""
ACTOR_TYPES = ("urn:ietf:params:oauth:token-type:jwt", ASSERTION_TYPE)
"""The `actor_token_type`s that are taken: the actor is an agent's assertion."""
