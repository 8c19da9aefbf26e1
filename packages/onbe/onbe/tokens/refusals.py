"""Why an agent's assertion, a person's token or a task token is not taken. None of them repeats anything of it."""

from __future__ import annotations

from onbe.catalogue import reason

# The agent's assertion (RFC 7523). A stranger hears the same error for all of them; the record says which.
assertion_malformed = reason("assertion_malformed", "The assertion is not a JWT that is taken here.")
assertion_algorithm = reason("assertion_algorithm", "The assertion's algorithm is not the one of its key.")
assertion_key_unknown = reason("assertion_key_unknown", "The agent has no key of the assertion's key id.")
assertion_keys_unavailable = reason("assertion_keys_unavailable", "The agent's keys cannot be had at this moment.")
assertion_signature = reason("assertion_signature", "The assertion's signature is wrong.")
assertion_issuer = reason("assertion_issuer", "The assertion's iss and sub are not one registered agent.")
assertion_audience = reason("assertion_audience", "The assertion's aud is neither the issuer nor the token endpoint.")
assertion_expired = reason("assertion_expired", "The assertion has expired.")
assertion_too_long = reason("assertion_too_long", "The assertion expires more than 5 minutes from now.")
assertion_not_yet = reason("assertion_not_yet", "The assertion's iat or nbf is in the future.")
assertion_no_jti = reason("assertion_no_jti", "The assertion has no jti.")
assertion_replayed = reason("assertion_replayed", "The assertion was used before; make one for each request.")
assertion_instance = reason("assertion_instance", "The assertion's instance is not 1 to 128 printable characters.")

# The person's token.
subject_malformed = reason("subject_malformed", "The subject token is not a JWT that is taken here.")
subject_algorithm = reason("subject_algorithm", "The subject token's algorithm is not the one of its key.")
subject_key_unknown = reason("subject_key_unknown", "The identity provider has no key of the subject token's key id.")
subject_keys_unavailable = reason(
    "subject_keys_unavailable", "The identity provider's keys cannot be had at this moment."
)
subject_signature = reason("subject_signature", "The subject token's signature is wrong.")
subject_issuer = reason("subject_issuer", "The subject token is not from the identity provider that is trusted here.")
subject_audience = reason("subject_audience", "The subject token is not for this server.")
subject_expired = reason("subject_expired", "The subject token has expired.")
subject_not_yet = reason("subject_not_yet", "The subject token's iat or nbf is in the future.")
subject_type = reason("subject_type", "The subject token's typ is not one that is taken here.")
subject_nameless = reason("subject_nameless", "The subject token does not name a person.")
subject_is_agent = reason("subject_is_agent", "The subject token is an agent's, and an agent sponsors nobody.")

# A task token that another agent brings.
parent_malformed = reason("parent_malformed", "The subject token is not a task token of this server.")
parent_expired = reason("parent_expired", "The task token has expired.")
token_revoked = reason("token_revoked", "The task token was revoked.")
