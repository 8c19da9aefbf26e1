"""The door for the boxes' agents: `/agent/v1/<box>/<incarnation>/…`, under a token bound to both."""
