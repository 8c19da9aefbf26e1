"""The texts of Rift's letters: each as plain text, which stands alone, and as HTML without anything from elsewhere.

Pure: what a letter says is made of its kind, its facts and a link, and nothing is looked up. What people have named is
text in them, never markup, and never long enough to be a letter of its own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from jinja2 import Environment, PackageLoader, StrictUndefined

from rift.drivers.post.protocol import one_line
from rift.times import span

NAME_MOST = 80
"""The most characters of a name in a letter: who invites strangers shall not write to them through us."""
COLUMNS = 76


@dataclass(frozen=True, slots=True)
class Text:
    """A letter, readable."""

    subject: str
    text: str
    html: str
    link: str
    """The address that it asks to open; empty where it asks for nothing."""
    reply_to: str | None
    """What the facts have as the address of who wrote it."""


@dataclass(frozen=True, slots=True)
class _Says:
    subject: str
    before: tuple[str, ...]
    """Paragraphs before the link."""
    action: str = ""
    """What its button says."""
    url: str = ""
    after: tuple[str, ...] = ()
    reply_to: str | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    public: str
    link: str
    good_for: timedelta


def render(
    kind: str, facts: Mapping[str, object], *, to: str, public: str, link: str = "", good_for: timedelta = timedelta(0)
) -> Text:
    """A letter's text. `public` is Rift's address, `link` its one-time link if it has one, `good_for` the time of that.

    Raises KeyError on a kind or facts that there are not.
    """
    says = _KINDS[kind](facts, _Place(public, link, good_for))
    shown = {"says": says, "to": one_line(to), "public": public}
    return Text(
        says.subject, _TEXT.get_template("letter.txt").render(shown), _HTML.get_template("letter.html").render(shown),
        says.url, says.reply_to,
    )  # fmt: skip


def named(facts: Mapping[str, object], fact: str) -> str:
    """What somebody has named: one line, bounded, and no address that a mail program would make a link of."""
    name = one_line(str(facts[fact])).replace("://", ": //").replace("www.", "www. ")
    return name if len(name) <= NAME_MOST else f"{name[:NAME_MOST]}…"


def beginning(name: str) -> str:
    """A name as a sentence begins with it: words with a capital letter, an address as it is."""
    return name if "@" in name else name[:1].upper() + name[1:]


def _once(place: _Place) -> str:
    if not place.good_for:
        return "You have an account: sign in, and accept it there."
    return f"The link works once, and for {length(place.good_for)} from when this letter was sent."


def length(span_of_time: timedelta) -> str:
    """A length of time, in days where it is a number of them."""
    days = span_of_time.days
    return f"{days} days" if days > 1 and span_of_time == timedelta(days=days) else span(span_of_time)


def _sign_in(facts: Mapping[str, object], place: _Place) -> _Says:
    return _Says(
        "Your link to sign in to Rift",
        (f"Somebody, most likely you, asked to sign in to Rift at {place.public} with this address.",),
        "Sign in",
        place.link,
        (_once(place), "If it was not you, do nothing: without the link nobody is signed in."),
    )


def _team_invitation(facts: Mapping[str, object], place: _Place) -> _Says:
    inviter, team = beginning(named(facts, "inviter")), named(facts, "team")
    role = "an admin" if facts["role"] == "admin" else "a member"
    return _Says(
        f"{inviter} invites you to the team {team} on Rift",
        (
            f"{inviter} invites you to the team “{team}” on Rift at {place.public}, as {role}.",
            "Rift gives coding agents disposable boxes to work in."
            + (" You have no account yet: the link makes one." if place.good_for else ""),
        ),
        "See the invitation",
        place.link,
        (_once(place), "If you do not know who this is, do nothing: nothing happens without you."),
        str(facts["inviter"]),
    )


def _account_invitation(facts: Mapping[str, object], place: _Place) -> _Says:
    inviter = beginning(named(facts, "inviter"))
    return _Says(
        f"{inviter} invites you to Rift",
        (
            f"{inviter} invites you to make an account on Rift at {place.public}.",
            "Rift gives coding agents disposable boxes to work in.",
        ),
        "Make an account",
        place.link,
        (_once(place), "If you do not know who this is, do nothing: nothing happens without you."),
        str(facts["inviter"]),
    )


def _feedback(facts: Mapping[str, object], place: _Place) -> _Says:
    sender, count = named(facts, "sender"), facts["items"]
    items = "1 item" if count == 1 else f"{count} items"
    return _Says(
        f"Feedback from {sender}: {items}",
        (f"{sender} submitted {items} of feedback on Rift at {place.public}.",),
        "Read it in the inbox",
        place.public + str(facts["path"]),
        ("You get this letter as a platform admin. An answer to it goes to who submitted.",),
        str(facts["sender"]),
    )


def _trial(facts: Mapping[str, object], place: _Place) -> _Says:
    return _Says(
        "A trial letter from Rift",
        (
            f"This letter was sent by `rift mail test` on the server of {place.public}.",
            "That you read it shows that letters arrive. There is nothing to do.",
        ),
    )


_KINDS: Mapping[str, Callable[[Mapping[str, object], _Place], _Says]] = {
    "sign_in": _sign_in,
    "team_invitation": _team_invitation,
    "account_invitation": _account_invitation,
    "feedback": _feedback,
    "trial": _trial,
}


def _wrapped(text: str) -> str:
    """A paragraph in lines; an address stays whole."""
    return textwrap.fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def _environment(*, html: bool) -> Environment:
    made = Environment(
        loader=PackageLoader("rift.letters"), autoescape=html,  # noqa: S701  # the other is plain text
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    made.filters["wrapped"] = _wrapped
    return made


_HTML, _TEXT = _environment(html=True), _environment(html=False)
