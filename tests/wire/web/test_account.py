"""The account page: where somebody is signed in, and signing out there."""

from __future__ import annotations

import re

from tests.wire.web.browsing import Browser

ACCOUNT = "/app/account"
ENDS = (f"{ACCOUNT}/sessions/end", f"{ACCOUNT}/sessions/end-others", f"{ACCOUNT}/sessions/end-all")


async def sessions(browser: Browser) -> list[str]:
    return re.findall(r'name="session" value="([^"]*)"', (await browser.get(ACCOUNT)).text)


async def test_the_page_lists_the_browsers_of_the_person_alone_and_says_which_is_this_one(browser: Browser) -> None:
    browser.client.headers["user-agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
    other, eve = Browser(browser.deps), Browser(browser.deps)
    other.client.headers["user-agent"] = "<script>alert(1)</script>"
    await browser.sign_in("ada@example.org")
    await other.sign_in("ada@example.org")
    await eve.sign_in("eve@example.org")
    html = (await browser.get(ACCOUNT)).text
    assert "Firefox on Linux" in html
    assert "<script>alert" not in html
    assert html.count("this one") == 1
    assert len(await sessions(browser)) == 2
    assert len(await sessions(eve)) == 1


async def test_a_browser_is_signed_out_from_another_and_from_itself(browser: Browser) -> None:
    other, eve = Browser(browser.deps), Browser(browser.deps)
    await other.sign_in("ada@example.org")
    (there,) = await sessions(other)
    await browser.sign_in("ada@example.org")
    await eve.sign_in("eve@example.org")
    assert (await eve.submit(ACCOUNT, ENDS[0], session=there)).status_code == 404
    assert (await other.get(ACCOUNT)).status_code == 200
    assert (await browser.submit(ACCOUNT, ENDS[0], session=there)).headers["location"] == ACCOUNT
    assert (await other.get(ACCOUNT)).status_code == 303
    assert "That browser is signed out" in (await browser.get(ACCOUNT)).text
    (here,) = await sessions(browser)
    assert (await browser.submit(ACCOUNT, ENDS[0], session=here)).headers["location"] == "/sign-in"
    assert (await browser.get(ACCOUNT)).status_code == 303


async def test_signing_out_everywhere_else_and_everywhere_does_what_it_says(browser: Browser) -> None:
    others = [Browser(browser.deps) for _ in range(3)]
    for one in (browser, *others):
        await one.sign_in("ada@example.org")
    eve = Browser(browser.deps)
    await eve.sign_in("eve@example.org")
    assert (await browser.submit(ACCOUNT, ENDS[1])).headers["location"] == ACCOUNT
    assert "Signed out in 3 other browsers" in (await browser.get(ACCOUNT)).text
    assert [(await one.get(ACCOUNT)).status_code for one in (browser, *others, eve)] == [200, 303, 303, 303, 200]
    await others[0].sign_in("ada@example.org")
    assert (await browser.submit(ACCOUNT, ENDS[2])).headers["location"] == "/sign-in"
    assert [(await one.get(ACCOUNT)).status_code for one in (browser, others[0], eve)] == [303, 303, 200]


async def test_no_form_of_the_account_is_taken_from_another_site(browser: Browser) -> None:
    await browser.sign_in("ada@example.org")
    (here,) = await sessions(browser)
    for path in ENDS:
        for form in ({"session": here}, {"session": here, "csrf": "wrong"}):
            assert (await browser.post(path, form)).status_code == 403, path
        foreign = await browser.post(path, {"session": here}, {"origin": "https://evil.example"})
        assert foreign.status_code == 403, path
        assert (await Browser(browser.deps).post(path, {"session": here})).headers["location"] == "/sign-in"
    assert (await browser.get(ACCOUNT)).status_code == 200
