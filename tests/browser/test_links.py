"""Every link and every form of every page leads to something that is there."""

from __future__ import annotations

import re
from collections import deque
from html import unescape
from urllib.parse import urljoin, urlsplit

import httpx2
import pytest
from tests.browser.site import Site
from tests.browser.world import ADA, NEWCOMER

PAGES_MOST = 400
LINK = re.compile(r'<(?:a|link)\b[^>]*?\bhref="([^"]*)"|<(?:script|img)\b[^>]*?\bsrc="([^"]*)"')
FORM = re.compile(r'<form\b(?=[^>]*method="post")[^>]*?\baction="([^"]*)"')


@pytest.mark.parametrize("who", [ADA, NEWCOMER, None], ids=["full", "empty", "nobody"])
def test_every_link_and_every_form_of_every_page_leads_somewhere(site: Site, who: str | None) -> None:
    with httpx2.Client(base_url=site.url, follow_redirects=True, timeout=60) as browser:
        if who is not None:
            _sign_in(browser, site.link(who))
        waiting, met, dead = deque([("/", "the start")]), {"/"}, []
        while waiting and len(met) < PAGES_MOST:
            path, found_on = waiting.popleft()
            answer = browser.get(path)
            if answer.status_code != 200:
                dead.append(f"{path} ({answer.status_code}), on {found_on}")
            if not answer.headers.get("content-type", "").startswith("text/html"):
                continue
            for to in _inside(answer.text, str(answer.url), site.url):
                if to not in met:
                    met.add(to)
                    waiting.append((to, path))
            dead += [
                f"the form to {to}, on {path}"
                for to in FORM.findall(answer.text)
                if _is_nowhere(browser, urljoin(str(answer.url), unescape(to)))
            ]
    assert dead == []
    assert len(met) > 20


def _inside(html: str, here: str, start: str) -> list[str]:
    """The addresses of ours that a page leads to, without the places in them; what never ends is left out."""
    found = [urljoin(here, unescape(one or other)) for one, other in LINK.findall(html)]
    paths = [
        urlsplit(one)._replace(scheme="", netloc="", fragment="").geturl() for one in found if one.startswith(start)
    ]
    return [path for path in paths if "/live" not in path]


def _is_nowhere(browser: httpx2.Client, url: str) -> bool:
    """Whether nothing takes a form there. This one is from no page of ours, so that it does nothing."""
    return browser.post(
        url, data={"csrf": "from nowhere"}, headers={"Origin": "https://elsewhere.example"}
    ).status_code in (
        404,
        405,
    )


def _sign_in(browser: httpx2.Client, link: str) -> None:
    csrf = re.search(r'name="csrf" value="([^"]*)"', browser.get(link).text)
    signed_in = browser.post(link, data={"csrf": csrf[1] if csrf else ""})
    assert signed_in.status_code == 200
    assert "/app" in str(signed_in.url)
