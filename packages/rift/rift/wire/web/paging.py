"""Lists that do not fit on one page: `page` in the address, and the links to the pages beside it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from rift.wire.web.visit import Visit

PAGE_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Pager:
    """The addresses of the pages beside this one, None where there is none."""

    newer: str | None
    older: str | None


def page_of(visit: Visit) -> int:
    """Which page is wanted: the first where the address names none that there can be."""
    said = visit.request.query_params.get("page", "1")
    number = int(said) if said.isascii() and said.isdigit() and len(said) <= 5 else 1
    return min(max(number, 1), PAGE_MOST)


def pager(path: str, page: int, more: bool, **filters: str) -> Pager:
    """The links of a page of a list; `filters` are what else the address says."""
    return Pager(
        address(path, page - 1, **filters) if page > 1 else None, address(path, page + 1, **filters) if more else None
    )


def address(path: str, page: int, **filters: str) -> str:
    """The address of one page of a list; what is usual is left out of it."""
    said = {name: value for name, value in filters.items() if value} | ({"page": str(page)} if page > 1 else {})
    return f"{path}?{urlencode(said)}" if said else path
