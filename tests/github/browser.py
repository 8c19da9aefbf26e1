"""A browser at the stand-in, as far as tests need one: it signs in, and presses the buttons of its pages."""

from __future__ import annotations

import html
import re
from types import TracebackType
from urllib.parse import urljoin

import httpx2

ACTION = re.compile(r'<form method=post action="([^"]*)"')
HIDDEN = re.compile(r'<input type=hidden name="([^"]*)" value="([^"]*)"')


class Browser:
    """Signed in as `login`. Every method ends where a page of another host would be opened: that address."""

    def __init__(self, url: str, login: str) -> None:
        self._url = url
        self._client = httpx2.Client(trust_env=False)
        self._client.post(f"{url}/login", data={"login": login})

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def open(self, address: str) -> httpx2.Response:
        """A page there, by GET, wherever that leads on this host."""
        return self._led(self._client.get(urljoin(self._url, address)))

    def press(self, page: httpx2.Response, decision: str = "yes", **fields: str | list[str]) -> httpx2.Response:
        """Press a button of a page's form, with what was filled in."""
        found = ACTION.search(page.text)
        assert found, page.text
        kept = {html.unescape(name): html.unescape(value) for name, value in HIDDEN.findall(page.text)}
        sent = {**kept, **fields, "decision": decision}
        return self._led(self._client.post(urljoin(str(page.url), html.unescape(found[1])), data=sent))

    def _led(self, answer: httpx2.Response) -> httpx2.Response:
        while answer.is_redirect and (to := urljoin(str(answer.url), answer.headers["location"])).startswith(self._url):
            answer = self._client.get(to)
        return answer

    # What people do -------------------------------------------------------------------------------------------------

    def authorize(self, address: str, decision: str = "yes") -> str:
        """Authorize an App at the address that it sent this browser to; where it is sent back to."""
        page = self.open(address)
        return _leads(page if page.is_redirect else self.press(page, decision))

    def install(self, address: str, account: int, repositories: list[int] | None = None) -> str:
        """Install an App into an account (by ids), for all repositories or these; where it is sent then."""
        chosen = [str(number) for number in repositories or ()]
        selection = "all" if repositories is None else "selected"
        page = self.open(address)
        return _leads(self.press(page, account=str(account), repository_selection=selection, repository_ids=chosen))

    def device(self, user_code: str, decision: str = "yes") -> str:
        """Type a code on the page for devices, and decide; what the page says then."""
        asked = self.press(self.open("/login/device"), "continue", user_code=user_code)
        return self.press(asked, decision).text

    def make_app(self, address: str, manifest: str, state: str = "") -> str:
        """Send a manifest as another server's page does, and agree; where it is sent back to, with the code."""
        sent = self._client.post(urljoin(self._url, address), data={"manifest": manifest, "state": state})
        name = re.search(r'name=name value="([^"]*)"', sent.text)
        return _leads(self.press(self._led(sent), name=html.unescape(name[1]) if name else ""))


def _leads(answer: httpx2.Response) -> str:
    assert answer.is_redirect, answer.text
    return str(answer.headers["location"])
