"""What a wheel of Rift holds beside its code: the pages of the documentation, which its server serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Documentation(BuildHookInterface):
    """Packs the checkout's `docs/` as `rift/documentation`; an editable install reads them where they are."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files, but in an editable wheel."""
        docs = Path(self.root).parents[1] / "docs"
        if version != "editable":
            pages = {str(page): f"rift/documentation/{page.relative_to(docs)}" for page in docs.rglob("*.md")}
            build_data["force_include"].update(pages)
