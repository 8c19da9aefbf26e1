"""Why an exchange or a refresh is refused."""

from __future__ import annotations

from onbe.catalogue import reason

malformed_request = reason("malformed_request", "{problems}.")
unsupported_grant = reason("unsupported_grant", "The grant_type is not one of {supported}.")
unsupported_token_type = reason("unsupported_token_type", "The {parameter} is not one of {supported}.")
grant_not_found = reason("grant_not_found", "The grant does not exist.")
resource_malformed = reason("resource_malformed", "The resource is not an absolute URI without a fragment.")
audience_mismatch = reason("audience_mismatch", "The resource is not the task's own.")
audience_not_allowed = reason("audience_not_allowed", "The agent is not registered for this resource.")
scope_malformed = reason("scope_malformed", "The scope is not a list of names with single spaces between them.")
scope_widened = reason("scope_widened", "The scope asks for more than the task was granted.")
scope_not_allowed = reason("scope_not_allowed", "The agent's registration does not allow all of the scope.")
scope_empty = reason("scope_empty", "Nothing of the scope is allowed both to the person and to the agent.")
delegation_too_deep = reason("delegation_too_deep", "An agent on the way does not allow a delegation this deep.")
delegation_to_itself = reason("delegation_to_itself", "The task is this agent's own already; refresh its grant.")
