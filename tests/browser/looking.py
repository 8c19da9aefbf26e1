"""What a page is looked at for: nothing beyond its edge, nothing that axe finds; narrow and wide, light and dark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Page

WIDTHS = (360, 768, 1440)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
BEYOND = "document.scrollingElement.scrollWidth - window.innerWidth"

SETTLED = """(async () => {
    for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
    const ending = document.getAnimations().filter(one => one.effect.getComputedTiming().endTime < Infinity);
    await Promise.allSettled(ending.map(one => one.finished));
})()"""
"""A page that was just resized or changes its colors is drawn, and what moves has come to rest."""


@dataclass(frozen=True)
class Eye:
    """Looks at what a browser shows."""

    axe: str
    """The checker of accessibility, as a script."""
    pictures: Path | None
    """The folder for pictures, where somebody wants them: to take one is half of a look's time."""

    def everywhere(self, page: Page, name: str) -> None:
        """At every width in both themes. The page is loaded once: from then on its stylesheet alone does the rest."""
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 800})
                self.now(page, f"{name}-{theme}-{width}")

    def now(self, page: Page, name: str) -> None:
        """As it is now. `name`: the picture's."""
        if self.pictures is not None:
            page.screenshot(path=self.pictures / f"{name}.png", full_page=True)
        fits(page, name)
        page.evaluate(SETTLED)
        found = self._violations(page)
        assert found == [], f"{name}: {found}"

    def _violations(self, page: Page) -> list[str]:
        """What the checker finds, each with the place."""
        if not page.evaluate("'axe' in window"):
            page.evaluate(f"{self.axe}; 0")
        found: list[dict[str, Any]] = page.evaluate(
            "axe.run(document, {resultTypes: ['violations']}).then(done => done.violations)"
        )
        return [
            f"{one['id']}: {one['help']} at {json.dumps([node['target'] for node in one['nodes']])[:600]}"
            for one in found
        ]


def fits(page: Page, name: str) -> None:
    """Nothing of the page is beyond its edge."""
    beyond = page.evaluate(BEYOND)
    assert beyond <= 0, f"{name} is {beyond} px too wide"
