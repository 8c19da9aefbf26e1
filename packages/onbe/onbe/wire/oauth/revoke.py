"""`POST /oauth2/revoke` (RFC 7009): an agent ends what it holds.

Whatever it brings, the answer is the same empty 200: it learns of no other agent's token whether there is such a one.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from keel.db import Busy, OperationalError
from keel.refusal import Refusal, Retry, Stop
from onbe import names
from onbe.audit import Row, stranger
from onbe.credentials import actions
from onbe.credentials.model import Ask
from onbe.deps import Deps
from onbe.grants.refusals import unsupported_token_type
from onbe.wire.oauth.forms import malformed, read_form
from onbe.wire.oauth.token import NOT_STORED, refused
from onbe.wire.refusals import database_away

log = structlog.get_logger("onbe.revoke")


def routes(deps: Deps) -> list[BaseRoute]:
    """`/oauth2/revoke`."""

    async def revoke(request: Request) -> Response:
        started = deps.clock.monotonic()
        try:
            answer = await _answer(deps, request, started)
        except (OperationalError, Busy) as error:
            log.warning("database.away", trouble=type(error).__name__)
            answer = database_away(Retry(1))
        return Response(b"", headers=NOT_STORED) if answer is None else refused(answer)

    return [Route(names.REVOKE_PATH, revoke, methods=["POST"])]


async def _answer(deps: Deps, request: Request, started: float) -> Refusal | None:
    if "authorization" in request.headers:
        form: Mapping[str, str] | Refusal = malformed("An agent shows itself by its assertion, not by Authorization")
    else:
        form = await read_form(request)
    ask = form if isinstance(form, Refusal) else asked_for(form)
    if isinstance(ask, Refusal):
        return await stranger(deps, Row("token.revoke", started), ask)
    return await actions.revoke(deps, ask, started)


def asked_for(form: Mapping[str, str]) -> Ask | Refusal:
    """What a form with an assertion asks for. `token_type_hint` is not needed: what is brought tells what it is."""
    missing = [name for name in ("token", "client_assertion", "client_assertion_type") if name not in form]
    if missing:
        return malformed(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    if "client_secret" in form:
        return malformed("client_secret cannot be taken: an agent shows itself by its assertion")
    if form["client_assertion_type"] != names.ASSERTION_TYPE:
        return unsupported_token_type(Stop(), parameter="client_assertion_type", supported=names.ASSERTION_TYPE)
    return Ask(form["client_assertion"], form["token"], form.get("client_id"))
