"""What a browser is called."""

from __future__ import annotations

import re

_BROWSERS = (
    ("Edge", r"\bEdg(?:e|A|iOS)?/"),
    ("Opera", r"\bOPR/|\bOpera\b"),
    ("Samsung Internet", r"\bSamsungBrowser/"),
    ("Vivaldi", r"\bVivaldi/"),
    ("Firefox", r"\b(?:Firefox|FxiOS)/"),
    ("Chrome", r"\b(?:Chrome|CriOS|HeadlessChrome)/"),
    ("Chromium", r"\bChromium/"),
    ("Safari", r"\bSafari/"),
    ("curl", r"^curl/"),
)
"""In this order: most browsers also claim to be the ones that were there before them."""
_SYSTEMS = (
    ("Android", r"\bAndroid\b"),
    ("iPhone", r"\biPhone\b"),
    ("iPad", r"\biPad\b"),
    ("Windows", r"\bWindows\b"),
    ("ChromeOS", r"\bCrOS\b"),
    ("macOS", r"\bMac(?:intosh| OS X)\b"),
    ("Linux", r"\bLinux\b|\bX11\b"),
)


def browser_of(agent: str) -> str:
    """A browser in words, from what it says it is: "Firefox on Linux". For a person to know theirs again, no proof."""
    browser = _first(_BROWSERS, agent) or "A browser"
    system = _first(_SYSTEMS, agent)
    return f"{browser} on {system}" if system else browser


def _first(known: tuple[tuple[str, str], ...], agent: str) -> str | None:
    return next((name for name, pattern in known if re.search(pattern, agent)), None)
