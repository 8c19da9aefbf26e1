"""The language of the pages: no class without a rule, nothing inline, nothing from elsewhere, and it can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.people.house import user
from tests.wire.web.browsing import Browser

from rift.deps import Deps
from rift.wire.web.navigation import ENTRIES, OPEN, Menu
from rift.wire.web.site import PAGES, STATIC, templates

TEMPLATES = STATIC.parent / "templates"
FILES = sorted([*TEMPLATES.rglob("*.html"), *TEMPLATES.rglob("*.svg")])
SCRIPTS = sorted(STATIC.glob("*.js"))
CSS = "".join(path.read_text(encoding="utf-8") for path in sorted(STATIC.glob("*.css")))
RULES = re.sub(r"/\*.*?\*/", "", CSS, flags=re.DOTALL)
GO_ON = {page.path for page in PAGES if page.path.endswith("/live")}
FOR_STRANGERS = {"/", "/sign-in"}
GIVEN = {"ok", "busy", "warn", "bad", "quiet", "narrow", "prose", "app", "open", "script"}
"""Classes that a template puts together: kinds of badges and notices, shapes of pages, what <body> and <html> have."""


def markup(path: Path) -> str:
    return re.sub(r"\{#.*?#\}", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def classes(path: Path) -> set[str]:
    """The classes that a template has as such: not those that come from an expression."""
    found: set[str] = set()
    for value in re.findall(r'\sclass="([^"]*)"', markup(path)):
        found |= set(re.sub(r"\{[{%].*?[%}]\}", " ", value).split())
        found |= set(re.findall(r"'([a-z][a-z-]*)'", " ".join(re.findall(r"\{[{%].*?[%}]\}", value))))
    return found


def test_every_class_of_a_page_has_a_rule_and_every_rule_a_page() -> None:
    ruled = set(re.findall(r"\.([a-z][a-z-]*)(?=[\s.:,{>\[)])", RULES))
    used = {name for path in FILES for name in classes(path)}
    for script in SCRIPTS:
        used |= set(re.findall(r"""class(?:Name|List\.\w+)\W+["']([a-z-]+)""", script.read_text(encoding="utf-8")))
    made = STATIC.parent.parent / "docs"
    for module in made.glob("*.py"):  # the documentation's pages are made from Markdown there
        for value in re.findall(r'class=\\?"([a-z -]+)', module.read_text(encoding="utf-8")):
            used |= set(value.split())
    assert used - ruled == set(), "classes without a rule"
    assert ruled - used - GIVEN == set(), "rules without a page"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_template_has_what_the_policy_forbids_or_another_host_gives(path: Path) -> None:
    text = markup(path)
    assert not re.search(r"<style|\sstyle\s*=|\son[a-z]+\s*=\s*[\"']|javascript:", text), "inline style or script"
    assert not re.search(r"<script(?![^>]*\ssrc=)", text), "an inline script"
    shown = re.sub(r"<(code|pre)\b.*?</\1>", "", text, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href|action|srcset|poster|data)\s*=\s*["'](?:https?:)?//""", shown), "another host"
    assert "| safe" not in text or path.name.startswith("docs"), "only our own documentation comes as markup"


def test_the_stylesheet_and_the_scripts_load_nothing() -> None:
    assert "@import" not in RULES
    assert "url(" not in RULES
    for script in SCRIPTS:
        text = script.read_text(encoding="utf-8")
        assert not re.search(r"https?://", text), script.name
        assert not re.search(r"\beval\b|innerHTML|document\.write|new Function", text), script.name


@pytest.mark.parametrize(
    "path", [page.path for page in PAGES if page.get and "{" not in page.path and page.path not in GO_ON]
)
async def test_every_page_has_one_first_heading_one_main_part_and_one_way_past_the_menu(
    browser: Browser, deps: Deps, path: str
) -> None:
    await user(deps, "ada@example.com", admin=True)
    if path not in FOR_STRANGERS:
        await browser.sign_in("ada@example.com")
    answer = await browser.get(path)
    assert answer.status_code < 500, path
    if not answer.headers["content-type"].startswith("text/html"):
        return  # something to keep, not to look at
    for part in ("<h1", "<main ", 'class="skip"', "<title>"):
        assert answer.text.count(part) == 1, (path, part)


def test_every_form_that_is_posted_carries_its_token() -> None:
    for path in FILES:
        for form in re.findall(r'<form\b[^>]*method="post".*?</form>', markup(path), re.DOTALL):
            ours = 'action="{{ making.url }}"' not in form  # goes to GitHub, and takes nothing of ours along
            assert ("csrf" in form) == ours, f"{path.name}: {form[:80]}"


def colours(scheme: str) -> dict[str, str]:
    """The custom properties that are colours, in one of the two schemes."""
    light = dict(re.findall(r"--([a-z-]+):\s*(#[0-9a-f]{6})", RULES.split("@media (prefers-color-scheme: dark)")[0]))
    dark = re.search(r"@media \(prefers-color-scheme: dark\) \{\s*:root \{(.*?)\}", RULES, re.DOTALL)
    assert dark is not None
    own = dict(re.findall(r"--([a-z-]+):\s*(#[0-9a-f]{6})", dark[1]))
    assert set(own) == set(light), "each colour is told for both schemes"
    return own if scheme == "dark" else light


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, 1 to 21 (WCAG 2.2)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


TEXT = [
    *((ink, ground) for ink in ("ink", "quiet", "accent", "bad") for ground in ("paper", "ground")),
    *(("ink", f"{kind}-tint") for kind in ("accent", "ok", "warn", "bad")),
    *((kind, f"{kind}-tint") for kind in ("accent", "ok", "warn", "bad")),
    ("quiet", "accent-tint"), ("on-accent", "accent"), ("on-bad", "bad"), ("ok", "paper"), ("warn", "paper"),
]  # fmt: skip
CONTROLS = [("edge", "paper"), ("edge", "ground"), ("accent", "paper"), ("accent", "ground"), ("bad", "paper"),
            ("ok", "ok-tint"), ("accent", "accent-tint")]  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_controls_stand_out_enough_in_both_schemes(scheme: str) -> None:
    known = colours(scheme)
    for pairs, least in ((TEXT, 4.5), (CONTROLS, 3.0)):
        for one, other in pairs:
            found = contrast(known[one], known[other])
            assert found >= least, f"{one} on {other} in {scheme}: {found:.2f}"


def test_rules_name_no_colour_but_the_properties() -> None:
    rest = re.sub(r":root \{.*?\}", "", RULES, flags=re.DOTALL)
    assert not re.search(r"#[0-9a-f]{3,8}\b", rest)


def test_the_menu_leads_to_pages_that_there_are() -> None:
    paths = {page.path for page in PAGES}
    shown = {entry.path for entry in (*ENTRIES, *OPEN)}
    assert shown <= paths, f"no such page: {sorted(shown - paths)}"
    assert len({entry.path for entry in ENTRIES}) == len(ENTRIES)
    assert Menu(()).open("/") == []


@pytest.mark.parametrize("turning", [chr(one) for one in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))])
def test_a_name_cannot_turn_around_the_text_beside_it(turning: str) -> None:
    shown = templates().from_string("held by {{ name }} since noon, {{ name | ticked }}").render(name=f"x{turning}y")
    told = f"x\\u{ord(turning):04x}y"
    assert shown == f"held by {told} since noon, {told}"


def test_text_of_any_script_is_shown_as_it_is() -> None:
    for text in ("שלום עולם", "مرحبا", "👩‍💻", "naïve"):
        assert templates().from_string("{{ text }}").render(text=text) == text
