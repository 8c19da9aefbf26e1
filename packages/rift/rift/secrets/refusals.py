"""What setting or removing a secret is refused with. No refusal holds a value."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, kind
from rift.people.model import OPERATOR

PAGE = "/app/secrets"
"""Where a person finds the secrets of their repositories."""

_NAME = kind(
    "secret_name",
    "{name} is no name for a secret: it is to be an environment variable's, of letters, digits and _, not beginning "
    "with a digit, of at most 128 characters.",
)
_TAKEN = kind("secret_name_taken", "No secret can be called {name}: {why}.")
_VALUE = kind("secret_value", "This value of {name} cannot be kept: {why}. Nothing was changed.")
_MANY = kind("secret_limit", "{repo} has {most} secrets already, and a repository has no more. Nothing was changed.")
_LARGE = kind(
    "secrets_too_large",
    "The secrets of {repo} would have {total:,} bytes together, and they may have {most:,}. Nothing was changed.",
)
_NONE = kind("no_such_secret", "{repo} has no secret called {name}.")
_SHUT = kind("secrets_unusable", "No secret can be kept at this moment: the keys of this Rift's vault cannot be used.")
_WHICH = kind("secret_which_repository", "{count} organizations have a repository {repo}, each with its own secrets.")
_SIGNED_OUT = kind("not_signed_in", "Nobody is signed in: this is answered to a browser's session alone.")
_TOKEN = kind(
    "no_token_here",
    "Secrets are not set or seen with a client's token: a value would go through an agent's transcript.",
)


def bad_name(name: str, again: str) -> Refusal:
    """No name of an environment variable."""
    return _NAME(Ask("yourself", f"{again}, with a name such as API_KEY"), name=_shown(name))


def name_taken(name: str, why: str, again: str) -> Refusal:
    """A name that something else in a box goes by."""
    return _TAKEN(Ask("yourself", f"{again}, under another name, as APP_{name[:60]}"), name=name, why=why)


def bad_value(name: str, why: str, again: str) -> Refusal:
    """Empty, with a NUL, or too long."""
    return _VALUE(Ask("yourself", f"{again}, with another value"), name=name, why=why)


def too_many(repo: str, most: int, page: str) -> Refusal:
    """As many as there may be."""
    return _MANY(Ask("yourself", f"{page}: remove one that no command needs"), repo=repo, most=most)


def too_large(repo: str, total: int, most: int, page: str) -> Refusal:
    """More bytes together than a command's environment is given."""
    return _LARGE(
        Ask("yourself", f"{page}: remove one, or keep a large file elsewhere and its key here"),
        repo=repo, total=total, most=most,
    )  # fmt: skip


def no_such_secret(repo: str, name: str, page: str) -> Refusal:
    """Not there, or not any more."""
    return _NONE(Ask("yourself", f"{page} shows what there is"), repo=repo, name=_shown(name))


def unusable() -> Refusal:
    """The vault's keys are unreadable: its log says why."""
    return _SHUT(Ask(OPERATOR, "`rift vault status` says what is wrong and what mends it"))


def which_repository(repo: str, count: int) -> Refusal:
    """A name that several organizations have, on the command line."""
    page = f"an admin of the one that is meant sets it on {PAGE}"
    return _WHICH(Ask(OPERATOR, page), repo=repo, count=count)


def not_signed_in() -> Refusal:
    """The API without a session."""
    return _SIGNED_OUT(Ask("yourself", "sign in on /sign-in, and ask with that browser's cookie"))


def no_token_here() -> Refusal:
    """The API with a bearer token, whatever token it is."""
    return _TOKEN(Ask("the user", f"an admin of the organization sets it on {PAGE}"))


def _shown(name: str) -> str:
    """A name as somebody may have mistyped a value for it: told only where it can be a name, else by its length."""
    if name and len(name) <= 64 and name.isascii() and name.replace("_", "").replace("-", "").isalnum():
        return name
    return f"what was given ({len(name)} characters)" if name else "an empty text"
