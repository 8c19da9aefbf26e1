"""Why an agent, or what an administrator asks about one, is refused."""

from __future__ import annotations

from onbe.catalogue import reason

agent_unknown = reason("agent_unknown", "No agent {agent} is registered.")
agent_exists = reason("agent_exists", "An agent {agent} is registered already.")
agent_in_use = reason("agent_in_use", "The agent {agent} has {tasks} stored; disable it instead.")
agent_disabled = reason("agent_disabled", "The agent is disabled.")
invalid_fields = reason("invalid_fields", "The registration was not taken: {problems}.")
sponsor_blocked = reason("sponsor_blocked", "The person is blocked here.")
sponsor_disabled = reason("sponsor_disabled", "The person is disabled at the identity provider.")
sponsor_not_found = reason("sponsor_not_found", "The person is not known at the identity provider.")
sponsor_status_unavailable = reason(
    "sponsor_status_unavailable", "The identity provider could not say whether the person is active."
)
block_of_another = reason("block_of_another", "The block was placed by {source}, and is lifted by it alone.")
not_blocked = reason("not_blocked", "The person is not blocked.")
