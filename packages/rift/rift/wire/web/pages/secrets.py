"""The Secrets pages: per repository, what its boxes' commands have. Admins set and remove; a value is never shown."""

from __future__ import annotations

from starlette.responses import Response

from keel.refusal import Refusal
from rift.secrets import actions
from rift.secrets.decide import decide_name, typed
from rift.secrets.model import Removed, RepoSecrets
from rift.secrets.refusals import PAGE
from rift.wire.web.visit import Page, Visit

AT_NAME = frozenset({"secret_name", "secret_name_taken"})
"""What is told beside the field of the name; all else about a form, beside that of the value."""


async def overview(visit: Visit) -> Response | Refusal:
    """The repositories of the person's organizations, and how many secrets each has."""
    return visit.render("secrets.html", repos=await actions.look(visit.deps, visit.caller))


async def of_repo(visit: Visit) -> Response | Refusal:
    """One repository's secrets."""
    return await _page(visit)


async def put(visit: Visit) -> Response | Refusal:
    """Set one. After an error the value is typed again: it is in no page that is sent back."""
    repo, name = visit.request.path_params["repo"], visit.said("name")
    value = typed("".join(visit.form.get("value", ())[:1]))
    sure = decide_name(name, "") is None  # else it may be a value in the wrong field
    done = await actions.put(
        visit.deps, visit.act("set secret", repo=repo, name=name if sure else ""), repo, name, value
    )
    if isinstance(done, Refusal):
        return await _page(visit, done, name if sure else "")
    how = "is set" if done.fresh else "is changed"
    return visit.go(f"{PAGE}/{repo}", f"{name} {how}: the next command in each box has it.")


async def remove(visit: Visit) -> Response | Refusal:
    """Remove one."""
    repo, name = visit.request.path_params["repo"], visit.said("name")
    kept = name if decide_name(name, "") is None else ""
    done = await actions.remove(visit.deps, visit.act("remove secret", repo=repo, name=kept), repo, name)
    if isinstance(done, Removed):
        return visit.go(f"{PAGE}/{repo}", f"{name} is removed: the next command in each box does not have it.")
    return done


async def _page(visit: Visit, refused: Refusal | None = None, name: str = "") -> Response | Refusal:
    found = await actions.of_repo(visit.deps, visit.caller, visit.request.path_params["repo"])
    if isinstance(found, Refusal):
        return found
    if refused is not None and not _about_form(found, refused):
        return refused
    at_name = refused.sentence if refused and refused.code in AT_NAME else ""
    at_value = refused.sentence if refused and not at_name else ""
    return visit.render(
        "secret.html", 422 if refused else 200, found=found, repo=found.repo, name=name, at_name=at_name,
        at_value=at_value,
    )  # fmt: skip


def _about_form(found: RepoSecrets, refused: Refusal) -> bool:
    """Whether an admin is told beside their form; who may not change anything has none."""
    return found.place.admin and refused.code not in ("no_such_repository", "needs_admin")


PAGES = (
    Page(PAGE, overview),
    Page(f"{PAGE}/{{repo}}", of_repo, put),
    Page(f"{PAGE}/{{repo}}/remove", post=remove),
)
