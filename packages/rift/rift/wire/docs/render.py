"""Markdown of ours as HTML: headings with anchors, tables that scroll, links between pages, no raw HTML."""

from __future__ import annotations

import posixpath
import re
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from rift.wire.docs import pages

COMMENT = re.compile(r"\s*<!--.*?-->\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Section:
    """What stands below one heading of a page, without the headings below it."""

    level: int
    anchor: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """A page as it is served: its title, the HTML of what stands below it, and its sections, the title's first."""

    title: str
    html: str
    sections: tuple[Section, ...]


@cache
def page(name: str) -> Rendered | None:
    """A page, or None where there is none. Made once in a process."""
    markdown = pages.text(name)
    return None if markdown is None else render(markdown, name)


def render(markdown: str, name: str) -> Rendered:
    """The HTML of the page `name`, which its links start from."""
    parser = MarkdownIt("commonmark", {"html": True}, renderer_cls=Ours).enable("table")
    env: dict[str, Any] = {"page": name}
    tokens = parser.parse(markdown, env)
    sections = _sections(tokens)
    if not sections or tokens[0].tag != "h1":
        sections.insert(0, Section(1, slug(name), name, ""))
    else:
        del tokens[:3]
    html = parser.renderer.render(tokens, parser.options, env)
    return Rendered(sections[0].title, html, tuple(sections))


class Ours(RendererHTML):
    """The renderer: what the pages' own Markdown has, and text where it is anything else."""

    def html_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        """A comment is left out; any other HTML is text."""
        return escape(COMMENT.sub("", tokens[idx].content))

    html_inline = html_block

    def heading_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        """With a link to itself, for whoever wants to point somebody to it."""
        opened, said = tokens[idx - 2], tokens[idx - 1]
        tag, anchor = tokens[idx].tag, opened.attrs.get("id", "")
        label = escape(f"Link to: {_words(said)}")
        return f' <a class="anchor" href="#{anchor}" aria-label="{label}">#</a></{tag}>\n'

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        """A wide table scrolls by itself, also by keyboard."""
        return '<div class="scroll" role="group" aria-label="Table" tabindex="0"><table>\n'

    def table_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        """The end of both."""
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        """A column's head; one that says nothing is a cell like others."""
        return '<th scope="col">' if tokens[idx + 1].content else "<td>"

    def th_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        """Closes it."""
        return "</th>" if tokens[idx - 1].content else "</td>"

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        """A cell, without the style that aligns it: the policy of our pages allows none."""
        return "<td>"

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        """A block of code, which scrolls by keyboard too."""
        return f'<pre tabindex="0"><code>{escape(tokens[idx].content)}</code></pre>\n'

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        """What a picture shows, in words: no page loads one."""
        return escape(tokens[idx].content)

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        """To a page of ours, to elsewhere, or to no page: then the words alone stand there."""
        to = address(str(tokens[idx].attrs.get("href", "")), env["page"])
        env.setdefault("links", []).append(to)
        if to is None:
            return "<span>"
        rel = ' rel="noreferrer"' if ":" in to else ""
        return f'<a href="{escape(to)}"{rel}>'

    def link_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        """Closes what was opened."""
        return "</span>" if env["links"].pop() is None else "</a>"


def address(href: str, name: str) -> str | None:
    """Where a link of the page `name` leads when the page is served; None where that is no page but a file."""
    parts = urlsplit(href)
    if parts.scheme or parts.netloc:
        return href if parts.scheme in ("http", "https", "mailto") else None
    if not parts.path:
        return f"#{parts.fragment}"
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), parts.path))
    led = path.removesuffix(".md")
    if led == path or pages.text(led) is None:
        return None
    return f"/docs/{led}" + (f"#{parts.fragment}" if parts.fragment else "")


def slug(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def _words(token: Token) -> str:
    """What a line says, without its marks."""
    inside = token.children or ()
    return "".join(one.content if one.type != "softbreak" else " " for one in inside if one.type != "html_inline")


def _sections(tokens: Sequence[Token]) -> list[Section]:
    """The sections of a page; gives each heading its `id`."""
    found: list[Section] = []
    said: list[str] = []
    seen: dict[str, int] = {}
    head: tuple[int, str, str] | None = None

    def end() -> None:
        if head is not None:
            found.append(Section(*head, " ".join(" ".join(said).split())))
        said.clear()

    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "inline" and before is not None and before.type == "heading_open":
            end()
            title = _words(token)
            anchor = slug(title)
            seen[anchor] = times = seen.get(anchor, 0) + 1
            anchor = anchor if times == 1 else f"{anchor}-{times - 1}"
            before.attrSet("id", anchor)
            head = (int(before.tag[1:]), anchor, title)
        elif token.type == "inline":
            said.append(_words(token))
        elif token.type in ("fence", "code_block"):
            said.append(token.content)
    end()
    return found
