"""The endpoints of OAuth: token, revoke, introspect, discovery."""
