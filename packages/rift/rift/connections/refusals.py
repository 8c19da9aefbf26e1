"""What a client that signs in is refused with. The codes of RFC 6749 that stand for them are in `wire/oauth`."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, Retry, kind

_UNKNOWN_CLIENT = kind("unknown_client", "Rift knows no client of the id {client}.")
_CLIENT_UNREADABLE = kind("client_unreadable", "The client's own description at {url} cannot be used: {why}.")
_REDIRECT_REFUSED = kind(
    "redirect_refused", "{client} wants its answer sent to {uri}, which is not an address that it made known."
)
_INVALID_REQUEST = kind("invalid_request", "The client asked wrongly: {problem}.")
_UNSUPPORTED_RESPONSE_TYPE = kind(
    "unsupported_response_type", "The client asked for something else than a code: response_type is to be `code`."
)
_UNSUPPORTED_GRANT_TYPE = kind(
    "unsupported_grant_type", "A token is given for an authorization_code or a refresh_token, and for nothing else."
)
_INVALID_TARGET = kind("invalid_target", "This server gives tokens for {resource} alone.")
_INVALID_GRANT = kind(
    "invalid_grant", "This code or refresh token is unknown, expired, used, or was given for something else."
)
_ACCESS_DENIED = kind("access_denied", "{client} was not allowed to act.")
_INVALID_CLIENT_METADATA = kind("invalid_client_metadata", "This registration cannot be taken: {problem}.")
_INVALID_REDIRECT_URI = kind("invalid_redirect_uri", "The redirect address {uri} cannot be taken: {why}.")
_CLIENTS_FULL = kind(
    "clients_full", "{most} clients are registered that never signed anybody in, the most at once."
)  # fmt: skip

_AGAIN = Ask("yourself", "remove the server from the client and add it again, so that it makes itself known anew")
_MAKERS = Ask("the makers of the client", "what they are to change is told above")
_SIGN_IN = Ask("yourself", "have the client sign in again")


def unknown_client(client: str) -> Refusal:
    """Never registered, or forgotten as it was not used."""
    return _UNKNOWN_CLIENT(_AGAIN, client=client)


def client_unreadable(url: str, why: str) -> Refusal:
    """The document that is the client's id."""
    return _CLIENT_UNREADABLE(
        Retry(60), Ask("the makers of the client", "the document is to be there, for everybody"), url=url, why=why
    )


def redirect_refused(client: str, uri: str) -> Refusal:
    """Nothing is ever sent there."""
    return _REDIRECT_REFUSED(_AGAIN, client=client, uri=uri)


def invalid_request(problem: str) -> Refusal:
    """A parameter is missing, wrong, or there twice."""
    return _INVALID_REQUEST(_MAKERS, problem=problem)


def unsupported_response_type() -> Refusal:
    """Codes alone."""
    return _UNSUPPORTED_RESPONSE_TYPE(_MAKERS)


def unsupported_grant_type() -> Refusal:
    """Two grants."""
    return _UNSUPPORTED_GRANT_TYPE(_MAKERS)


def invalid_target(resource: str) -> Refusal:
    """Another server's address in `resource`."""
    return _INVALID_TARGET(Ask("yourself", f"give the client the address {resource}"), resource=resource)


def invalid_grant() -> Refusal:
    """All that may be wrong with a code or a refresh token is told alike."""
    return _INVALID_GRANT(_SIGN_IN)


def access_denied(client: str) -> Refusal:
    """The person said no."""
    return _ACCESS_DENIED(_SIGN_IN, client=client)


def invalid_client_metadata(problem: str) -> Refusal:
    """What a client that registers says of itself."""
    return _INVALID_CLIENT_METADATA(_MAKERS, problem=problem)


def invalid_redirect_uri(uri: str, why: str) -> Refusal:
    """An address that no code is sent to."""
    return _INVALID_REDIRECT_URI(_MAKERS, uri=uri, why=why)


def clients_full(most: int) -> Refusal:
    """Somebody registers and registers."""
    return _CLIENTS_FULL(Retry(3600), most=most)
