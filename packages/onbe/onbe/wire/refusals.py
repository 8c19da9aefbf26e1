"""The one place where a refusal becomes an answer: an OAuth error (RFC 6749, 8693, 8707) or a problem document."""

from __future__ import annotations

import math
from typing import Any

from keel.refusal import Refusal, Retry
from onbe.catalogue import reason

rate_limited = reason("rate_limited", "Too many requests from this address; try again in {seconds} s.")
overloaded = reason("overloaded", "The server has more to do than it can at this moment; nothing was done.")
database_away = reason("database_away", "The server cannot reach its database; nothing was granted.")
internal_error = reason("internal_error", "The server failed at this request; its log tells why under {request}.")
too_large = reason("too_large", "The request's body is over {most} bytes.")
admin_unconfigured = reason(
    "admin_unconfigured", "The admin API has no key: set Onbe:Admin:Keys to one of at least 32 characters."
)
path_unknown = reason("path_unknown", "There is nothing at this path.")
method_unknown = reason("method_unknown", "This path does not take that method.")
media_type_unknown = reason("media_type_unknown", "The body's Content-Type should be {supported}, not encoded.")
too_slow = reason("too_slow", "The request's body took too long to come.")
admin_key_wrong = reason("admin_key_wrong", "The bearer key is not the admin API's.")

OAUTH: dict[str, tuple[int, str]] = {
    # the request itself
    "malformed_request": (400, "invalid_request"),
    "too_large": (413, "invalid_request"),
    "unsupported_grant": (400, "unsupported_grant_type"),
    "unsupported_token_type": (400, "invalid_request"),
    # who asks: strangers hear one error for all of it
    **dict.fromkeys(
        (
            "assertion_malformed", "assertion_algorithm", "assertion_key_unknown", "assertion_signature",
            "assertion_issuer", "assertion_audience", "assertion_expired", "assertion_too_long", "assertion_not_yet",
            "assertion_no_jti", "assertion_replayed", "assertion_instance", "admin_key_wrong",
        ),
        (401, "invalid_client"),
    ),
    # for whom: RFC 8693, 2.2.2
    **dict.fromkeys(
        (
            "subject_malformed", "subject_algorithm", "subject_key_unknown", "subject_signature", "subject_issuer",
            "subject_audience", "subject_expired", "subject_not_yet", "subject_type", "subject_nameless",
            "subject_is_agent", "parent_malformed", "parent_expired", "token_revoked",
        ),
        (400, "invalid_request"),
    ),
    "grant_not_found": (400, "invalid_grant"),
    **dict.fromkeys(
        (
            "task_revoked", "parent_revoked", "task_expired", "task_ending", "agent_disabled", "sponsor_blocked",
            "sponsor_disabled", "sponsor_not_found", "delegation_too_deep", "delegation_to_itself",
        ),
        (400, "access_denied"),
    ),
    "resource_malformed": (400, "invalid_target"),
    "audience_mismatch": (400, "invalid_target"),
    "audience_not_allowed": (400, "invalid_target"),
    "scope_malformed": (400, "invalid_scope"),
    "scope_widened": (400, "invalid_scope"),
    "scope_not_allowed": (400, "invalid_scope"),
    "scope_empty": (400, "invalid_scope"),
    # later, perhaps
    "rate_limited": (429, "slow_down"),
    **dict.fromkeys(
        (
            "assertion_keys_unavailable", "subject_keys_unavailable", "sponsor_status_unavailable", "overloaded",
            "database_away",
        ),
        (503, "temporarily_unavailable"),
    ),
    "internal_error": (500, "server_error"),
}  # fmt: skip
"""By reason: the status and the error of OAuth."""

ADMIN: dict[str, int] = {
    "malformed_request": 400,
    "path_unknown": 404,
    "method_unknown": 405,
    "too_slow": 408,
    "too_large": 413,
    "media_type_unknown": 415,
    "invalid_fields": 422,
    "invalid_query": 400,
    "record_unknown": 404,
    "record_unsealed": 409,
    "record_archived": 410,
    "admin_key_wrong": 401,
    "admin_unconfigured": 503,
    "agent_unknown": 404,
    "task_unknown": 404,
    "not_blocked": 404,
    "agent_exists": 409,
    "agent_in_use": 409,
    "block_of_another": 409,
    "rate_limited": 429,
    "overloaded": 503,
    "database_away": 503,
    "internal_error": 500,
}
"""By reason: the status of the admin API."""

STRANGER = "The agent could not be authenticated."
"""What stands in the answer to whoever is not an agent of ours."""


def oauth_error(refusal: Refusal) -> tuple[int, dict[str, str], dict[str, str]]:
    """Status, headers and body of an OAuth error. `access_denied` alone carries `reason` (seed, check 4)."""
    status, error = OAUTH[refusal.code]
    body = {"error": error, "error_description": STRANGER if error == "invalid_client" else refusal.sentence}
    if error == "access_denied":
        body["reason"] = refusal.code
    headers = {"Cache-Control": "no-store", "Pragma": "no-cache", **_retry(refusal)}
    return status, headers, body


def problem(refusal: Refusal) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Status, headers and body of a problem document (RFC 9457)."""
    status = ADMIN[refusal.code]
    document: dict[str, Any] = {
        "type": f"urn:onbe:refusal:{refusal.code}",
        "title": refusal.code.replace("_", " "),
        "status": status,
        "detail": refusal.sentence,
    }
    if "errors" in refusal.facts:
        document["errors"] = refusal.facts["errors"]
    challenge = {"WWW-Authenticate": 'Bearer realm="onbe admin"'} if status == 401 else {}
    return status, {"Cache-Control": "no-store", **challenge, **_retry(refusal)}, document


def _retry(refusal: Refusal) -> dict[str, str]:
    after = [mend.after for mend in refusal.mends if isinstance(mend, Retry)]
    return {"Retry-After": str(math.ceil(after[0]))} if after else {}
