"""What letters say: text that stands alone, HTML without anything from elsewhere, and names that stay names."""

from __future__ import annotations

import re
from datetime import timedelta
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest

from rift import letters
from rift.mail.model import SHAPES, Kind

PUBLIC = "https://rift.example.com"
LINK = f"{PUBLIC}/sign-in/link/riftl_abc"
HOSTILE = [
    "<script>alert(1)</script>", "</title><h1>x", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}",
    "a\r\nBcc: eve@e.com", "https://evil.example/sign-in", "x" * 5000, "\u202egnp.exe", "javascript:alert(1)",
    "&lt;b&gt;", "🙂 Ω",
]  # fmt: skip
FACTS: dict[Kind, dict[str, object]] = {
    "sign_in": {"next": "/app"},
    "team_invitation": {"invitation": "inv_1", "team": "acme", "inviter": "ada@example.com", "role": "admin"},
    "account_invitation": {"invitation": "inv_1", "inviter": "ada@example.com"},
    "feedback": {"sender": "ada@example.com", "items": 3, "path": "/app/inbox"},
    "trial": {},
}


class Tags(HTMLParser):
    """The elements of a letter with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def render(kind: Kind, facts: dict[str, object]) -> letters.Text:
    return letters.render(kind, facts, to="ada@example.com", public=PUBLIC, link=LINK, good_for=timedelta(minutes=15))


@pytest.mark.parametrize("kind", list(SHAPES))
def test_every_letter_says_the_same_in_text_and_in_html_with_nothing_from_elsewhere(kind: Kind) -> None:
    made = render(kind, FACTS[kind])
    page = Tags(made.html)
    names = [tag for tag, _ in page.tags]
    assert not {"script", "img", "link", "iframe", "form", "object", "svg"} & set(names)
    assert (names.count("h1"), page.tags[0]) == (1, ("html", {"lang": "en"}))
    addresses = {tag["href"] for name, tag in page.tags if name == "a"}
    assert len(addresses) <= 1
    assert all(address and urlsplit(address).netloc == "rift.example.com" for address in addresses)
    assert not re.search(r"url\(|@import|src=", made.html)
    assert made.subject.isprintable()
    words = " ".join(" ".join(page.words).split())
    for paragraph in made.text.partition("-- \n")[0].split("\n\n"):
        said = " ".join(paragraph.split())
        assert (
            said.rpartition(": https://")[0] in words
            if "/sign-in/link/" in said or "/app/inbox" in said
            else said in words
        )
    for address in addresses:
        assert str(address) in made.text.split()
    assert max(len(line) for line in made.text.splitlines()) <= 100


def test_the_kinds_of_letters_with_a_text_are_those_that_there_are() -> None:
    assert set(FACTS) == set(SHAPES) == set(letters._KINDS)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(("kind", "fact"), [("team_invitation", "team"), ("team_invitation", "inviter"),
                                            ("account_invitation", "inviter"), ("feedback", "sender")])  # fmt: skip
def test_a_hostile_name_stays_a_name(kind: Kind, fact: str, name: str) -> None:
    usual, made = render(kind, FACTS[kind]), render(kind, FACTS[kind] | {fact: name})
    assert [tag for tag, _ in Tags(made.html).tags] == [tag for tag, _ in Tags(usual.html).tags]
    assert {link["href"] for tag, link in Tags(made.html).tags if tag == "a"} == {
        link["href"] for tag, link in Tags(usual.html).tags if tag == "a"
    }
    assert made.subject.isprintable()
    assert len(made.subject) < 250
    assert len(made.text) < len(usual.text) + 500
    assert set(re.findall(r"\w+://", made.text)) == {"https://"}
    assert all(address.startswith(PUBLIC) for address in re.findall(r"https://\S+", made.text))
    assert not set("\r\x00\u202e") & set(made.text + made.html)
    assert "49" not in made.text.replace("4999", "")


def test_who_invites_at_the_terminal_begins_the_sentence() -> None:
    made = render("account_invitation", FACTS["account_invitation"] | {"inviter": "whoever runs this Rift"})
    assert made.subject == "Whoever runs this Rift invites you to Rift"


def test_a_link_is_whole_on_a_line_of_its_own() -> None:
    assert LINK in render("sign_in", FACTS["sign_in"]).text.splitlines()


@pytest.mark.parametrize(
    ("length", "words"),
    [(timedelta(minutes=15), "15 minutes"), (timedelta(days=14), "14 days"), (timedelta(days=1), "24 hours"),
     (timedelta(hours=36), "36 hours")],
)  # fmt: skip
def test_a_length_of_time_is_said_in_days_where_it_is_days(length: timedelta, words: str) -> None:
    assert letters.length(length) == words
