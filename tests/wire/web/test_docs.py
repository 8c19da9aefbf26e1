"""The documentation as it is served: every page, its links, the search, what a browser keeps."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest
from tests.wire.web.browsing import Browser

from rift.wire.docs import pages, render

VOID = {"meta", "link", "input", "br", "hr", "img", "path", "circle", "rect", "line", "use", "polyline"}


ADR = "adr/0001-one-environment-from-pinned-hashes"


class Reader(HTMLParser):
    """What a page has: its tags in balance, its ids, its links, whatever no page of ours may have."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.wrong: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [told["id"] or ""] if "id" in told else []
        self.links += [told["href"] or ""] if tag == "a" else []
        self.wrong += [f"{tag} {name}" for name in told if name == "style" or name.startswith("on")]
        if tag == "style" or (tag == "script" and not told.get("src")):
            self.wrong.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(f"</{tag}>")

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"<!--{data}-->")


async def test_who_reads_the_documentation_is_asked_for_nothing(browser: Browser) -> None:
    index = await browser.get("/docs")
    assert index.status_code == 200
    for page in pages.listed():
        answer = await browser.get(f"/docs/{page.name}")
        assert answer.status_code == 200
        assert f'href="/docs/{page.name}"' in index.text
        assert page.tells in unescape(index.text)
    await browser.sign_in("ada@example.com")
    assert (await browser.get("/docs/tasks")).status_code == 200


async def test_every_page_is_whole_and_each_of_its_links_leads_somewhere(browser: Browser) -> None:
    folder = pages.folder()
    assert folder
    adr = [f"adr/{file.stem}" for file in (folder / "adr").glob("*.md")]
    read = {}
    for name in ["", *(page.name for page in pages.listed()), *adr]:
        answer = await browser.get(f"/docs/{name}".rstrip("/"))
        assert answer.status_code == 200, name
        read[f"/docs/{name}".rstrip("/")] = Reader(answer.text)
    for path, page in read.items():
        assert page.wrong == [], path
        assert page.open == [], path
        assert len(page.ids) == len(set(page.ids)), path
        for link in page.links:
            to, _, anchor = link.partition("#")
            if to.startswith(("https:", "http:", "mailto:")) or (to and not to.startswith("/docs")):
                continue
            led = read.get(to or path)
            assert led is not None, (path, link)
            assert not anchor or anchor in led.ids, (path, link)


async def test_pages_follow_each_other_in_the_order_of_their_list(browser: Browser) -> None:
    order = [page.name for page in pages.listed()]
    for before, here, after in zip([None, *order], order, [*order[1:], None], strict=False):
        html = (await browser.get(f"/docs/{here}")).text
        led = dict(re.findall(r'rel="(prev|next)" href="/docs/([^"]+)"', html))
        assert (led.get("prev"), led.get("next")) == (before, after)
        assert f'href="/docs/{here}" aria-current="page"' in html


@pytest.mark.parametrize(
    "path",
    ["nothing", "nothing.md", "..%2fREADME", "%2e%2e/README", "adr", "adr/", "tasks/",
     "generate.py", "picture.svg", "x" * 5000, "adr/%2e%2e/%2e%2e/README"],
)  # fmt: skip
async def test_a_page_that_is_not_there_is_a_404_that_lists_what_is(browser: Browser, path: str) -> None:
    answer = await browser.get(f"/docs/{path}")
    assert answer.status_code == 404
    assert all(page.tells in unescape(answer.text) for page in pages.listed())


async def test_a_page_by_its_files_name_is_led_to_the_page(browser: Browser) -> None:
    answer = await browser.get("/docs/tasks.md")
    assert (answer.status_code, answer.headers["location"]) == (308, "/docs/tasks")


async def test_what_a_browser_has_it_is_not_sent_again(browser: Browser) -> None:
    first = await browser.get("/docs/tasks")
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"
    for said in (tag, f'W/{tag}, "other"', f'"other",{tag}'):
        again = await browser.get("/docs/tasks", **{"if-none-match": said})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert (await browser.get("/docs/tools", **{"if-none-match": tag})).status_code == 200
    await browser.sign_in("ada@example.com")  # another head of the page, so another page
    assert (await browser.get("/docs/tasks", **{"if-none-match": tag})).status_code == 200


async def test_what_a_person_is_told_once_is_not_kept(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    await browser.submit("/app/boxes", "/sign-out")
    told = await browser.get("/docs/tasks")
    assert "You are signed out." in told.text
    assert told.headers["cache-control"] == "no-store"
    assert "etag" not in told.headers


async def test_the_search_finds_headings_and_texts_and_leads_to_them(browser: Browser) -> None:
    html = (await browser.get("/docs/search?q=quiet+lease")).text
    assert 'href="/docs/tasks#clocks"' in html
    assert "<mark>" in html
    first = re.search(r'docs-found">\s*<li><a href="([^"]+)"', (await browser.get("/docs/search?q=takeover")).text)
    assert first is not None
    assert first[1] == "/docs/hand-over#takeover"


@pytest.mark.parametrize(
    "asked",
    ["", " ", "zzzz-nothing", "<script>alert(1)</script>", "%22%3E%3Cimg%20src%3Dx%3E", "a" * 9000, ".*", "(((",
     "%ff%fe", "&q=two", "ß", "+".join("abcdefghijklmnop"), "İ"],
)  # fmt: skip
async def test_whatever_is_searched_for_is_text_and_never_markup(browser: Browser, asked: str) -> None:
    answer = await browser.get(f"/docs/search?q={asked}")
    assert answer.status_code == 200
    page = Reader(answer.text)
    assert (page.wrong, page.open) == ([], [])
    assert "<script>alert" not in answer.text
    assert "<img" not in answer.text
    assert len(answer.text) < 60_000


@pytest.mark.parametrize(
    ("markdown", "never"),
    [
        ("<script>alert(1)</script>", "<script"),
        ("a <b onclick=x>b</b>", "<b"),
        ("[x](javascript:alert(1))", 'href="javascript'),
        ("[x](data:text/html,hi)", 'href="data'),
        ("<!-- a --><script>x</script>", "<script"),
        ('![x"><script>](y.png)', "<img"),
        ('# <img src=x> "q"', "<img"),
        ('```"><script>\nx\n```', "<script"),
        ("[a](//evil.example/x)", "evil.example"),
        ("<style>*{}</style>", "<style"),
        ("| a |\n|--:|\n| <i>b</i> |", "<i>"),
    ],
)
def test_no_html_of_a_page_is_more_than_text(markdown: str, never: str) -> None:
    html = render.render(markdown, "tasks").html
    assert never not in html
    assert Reader(html).open == []


def test_links_between_files_become_links_between_pages() -> None:
    for href, at, led in (
        ("tasks.md", "tools", "/docs/tasks"),
        ("tasks.md#clocks", "tools", "/docs/tasks#clocks"),
        ("#clocks", "tasks", "#clocks"),
        ("../tasks.md", ADR, "/docs/tasks"),
        (
            f"{ADR}.md",
            "ARCHITECTURE",
            f"/docs/{ADR}",
        ),
        ("https://example.com/a.md", "tasks", "https://example.com/a.md"),
        ("../README.md", "tasks", None),
        ("adr/", "ARCHITECTURE", None),
        ("../packages/rift/README.md#x", "tasks", None),
        ("nothing.md", "tasks", None),
    ):
        assert render.address(href, at) == led, href


def test_two_headings_of_one_name_have_two_anchors() -> None:
    made = render.render("# T\n\n## A b\n\n## A b\n\n### `c_d`\n", "tasks")
    assert [section.anchor for section in made.sections] == ["t", "a-b", "a-b-1", "c_d"]
