"""One call of the API: who makes it, what it brings, how it is answered or refused."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn
from urllib.parse import urlencode

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey
from tests.github.model import RIGHTS, App, Owner, Repo, Right, Token
from tests.github.shapes import API
from tests.github.world import Missing, World

DOCS = "https://docs.github.com/rest"
JWT_MOST = timedelta(minutes=10)
SKEW = timedelta(seconds=60)
PER_PAGE, PER_PAGE_MOST = 30, 100
INACCESSIBLE = "Resource not accessible by integration"


class Refused(Exception):
    """GitHub's refusal: a status, a message, and what is wrong with which field."""

    def __init__(
        self,
        status: int,
        message: str,
        errors: Sequence[Mapping[str, str] | str] | None = None,
        headers: Mapping[str, str] | None = None,
        docs: str = DOCS,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.body: dict[str, Any] = {"message": message, "documentation_url": docs, "status": str(status)}
        if status == 422:
            del self.body["status"]  # as the document has it
        if errors is not None:
            self.body["errors"] = list(errors)


@dataclass(frozen=True)
class Answer:
    """What is answered: JSON where there is a body."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Call:
    """`template` is the path as GitHub's document writes it; `named` are its parts."""

    world: World
    method: str
    path: str
    template: str
    named: Mapping[str, str]
    query: Mapping[str, str]
    authorization: str
    raw: bytes
    token: Token | None = None
    app: App | None = None
    """Who calls as an App, by a JWT."""

    # What it brings -------------------------------------------------------------------------------------------------

    @property
    def body(self) -> dict[str, Any]:
        if not self.raw:
            return {}
        try:
            told = json.loads(self.raw)
        except ValueError:
            raise Refused(400, "Problems parsing JSON") from None
        if not isinstance(told, dict):
            raise Refused(400, "Body should be a JSON object")
        return told

    def words(self, name: str, *, needed: bool = True, resource: str = "") -> str:
        """A text of the body. Which one is missing GitHub says in `errors`, or in the message where it has a schema."""
        value = self.body.get(name)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or (needed and not value):
            if resource:
                self.invalid({"resource": resource, "code": "missing_field", "field": name})
            raise Refused(422, f'Invalid request.\n\n"{name}" wasn\'t supplied.')
        return value

    def invalid(self, *errors: Mapping[str, str]) -> NoReturn:
        raise Refused(422, "Validation Failed", errors)

    def number(self, name: str) -> int:
        try:
            return int(self.named[name])
        except ValueError:
            raise Refused(404, "Not Found") from None

    # Who makes it ---------------------------------------------------------------------------------------------------

    def identify(self) -> None:
        """Find out whose call it is. Raises Refused where a credential is brought that is not good."""
        scheme, _, value = self.authorization.partition(" ")
        if not value or scheme.lower() == "basic":
            return
        if scheme.lower() not in ("bearer", "token"):
            raise Refused(401, "Bad credentials")
        if value.count(".") == 2:
            self.app = app_of_jwt(self.world, value)
            return
        self.token = self.world.token(value)
        if self.token is None:
            raise Refused(401, "Bad credentials")
        installation = self.token.installation
        if installation is not None and installation.id not in self.world.installations:
            raise Refused(401, "Bad credentials")
        if installation is not None and installation.suspended_at:
            raise Refused(403, "This installation has been suspended")

    @property
    def bucket(self) -> str:
        """Whose limit of calls it counts against."""
        if self.app is not None:
            return f"app:{self.app.id}"
        if self.token is None:
            return "anonymous"
        if self.token.installation is not None:
            return f"installation:{self.token.installation.id}"
        return f"user:{self.token.user.id if self.token.user else 0}"

    def as_app(self) -> App:
        """The App; calls that bring anything else hear what GitHub says to them."""
        if self.app is None:
            raise Refused(401, "A JSON web token could not be decoded")
        return self.app

    def as_user(self) -> Owner:
        self.bearer()
        if self.token is None or self.token.user is None:
            raise Refused(403, INACCESSIBLE)
        return self.token.user

    def bearer(self) -> Token:
        """Whoever brings a token; an App's JWT is none."""
        if self.app is not None:
            raise Refused(403, INACCESSIBLE)
        if self.token is None:
            raise Refused(401, "Requires authentication")
        return self.token

    @property
    def author(self) -> Owner:
        """Who is said to have done it: the user, or the App's owner where an installation did."""
        token = self.bearer()
        return token.user or token.app.owner

    def repo(self, what: str = "metadata", level: str = "read", least: Right = "read") -> Repo:
        """The repository of the path, which the bearer may see, and of which it may do `what`.

        One that may not be seen is not there. Raises Refused with 301 for a name of before.
        """
        full = f"{self.named['owner']}/{self.named['repo']}"
        if self.app is not None:
            raise Refused(403, INACCESSIBLE)
        try:
            repo, moved = self.world.repo(full), False
        except Missing:
            try:
                repo, moved = self.world.once(full), True
            except Missing:
                raise Refused(404, "Not Found") from None
        right = self.world.reach(self.token, repo)
        if right == "none":
            raise Refused(404, "Not Found")
        if moved:
            self._moved(repo, full)
        if not self.world.permitted(self.token, repo, what, level):
            raise Refused(403, INACCESSIBLE)
        if RIGHTS.index(right) < RIGHTS.index(least):
            raise Refused(403, "Must have admin rights to Repository." if least == "admin" else INACCESSIBLE)
        if level == "write" and repo.archived:
            raise Refused(403, "Repository was archived so is read-only.")
        return repo

    def _moved(self, repo: Repo, full: str) -> NoReturn:
        rest = self.path.removeprefix(f"/repos/{full}")
        where = f"{self.world.url}{API}/repositories/{repo.id}{rest}"
        if self.query:
            where += "?" + urlencode(self.query)
        status = 301 if self.method == "GET" else 307
        refused = Refused(status, "Moved Permanently" if status == 301 else "Temporary Redirect")
        refused.headers["location"] = where
        refused.body = {"message": refused.body["message"], "url": where, "documentation_url": DOCS}
        raise refused

    # Pages ----------------------------------------------------------------------------------------------------------

    def page(self, items: Sequence[Any]) -> tuple[Sequence[Any], dict[str, str]]:
        """The part of a list that was asked for, and the Link header that leads on."""
        size = min(max(self._count("per_page", PER_PAGE), 1), PER_PAGE_MOST)
        number = max(self._count("page", 1), 1)
        last = max(-(-len(items) // size), 1)
        links: dict[str, int] = {}
        if number > 1:
            links |= {"prev": min(number - 1, last), "first": 1}
        if number < last:
            links |= {"next": number + 1, "last": last}
        said = ", ".join(f'<{self._at(to)}>; rel="{rel}"' for rel, to in links.items())
        return items[(number - 1) * size : number * size], {"link": said} if said else {}

    def _count(self, name: str, otherwise: int) -> int:
        try:
            return int(self.query.get(name, otherwise))
        except ValueError:
            return otherwise

    def _at(self, page: int) -> str:
        return f"{self.world.url}{API}{self.path}?{urlencode({**self.query, 'page': str(page)})}"


def app_of_jwt(world: World, value: str) -> App:
    """The App that signed a JWT, by its id or its client id. Raises Refused as GitHub does."""
    now = world.now().timestamp()
    undecoded = Refused(401, "A JSON web token could not be decoded")
    try:
        claims = json.loads(_segment(value))
        issuer = claims.get("iss")
    except (ValueError, AttributeError):
        raise undecoded from None
    apps = [one for one in world.apps.values() if str(issuer) in (str(one.id), one.client_id)]
    if not apps:
        raise Refused(404, "Integration not found")
    try:
        jwt.decode(value, RSAKey.import_key(apps[0].pem), algorithms=["RS256"])
    except (JoseError, ValueError):
        raise undecoded from None
    ends, issued = claims.get("exp"), claims.get("iat")
    if not isinstance(ends, int) or ends <= now:
        raise Refused(401, "'Expiration time' claim ('exp') must be a numeric value representing the future time at "
                           "which the assertion expires")  # fmt: skip
    if ends > now + JWT_MOST.total_seconds():
        raise Refused(401, "'Expiration time' claim ('exp') is too far in the future")
    if not isinstance(issued, int) or issued > now + SKEW.total_seconds():
        raise Refused(401, "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was "
                           "issued")  # fmt: skip
    return apps[0]


def basic(authorization: str) -> tuple[str, str]:
    """The name and the password of Basic authorization; both empty without."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        name, _, word = base64.b64decode(value).decode().partition(":")
    except ValueError:
        return "", ""
    return name, word


def _segment(value: str) -> bytes:
    middle = value.split(".")[1]
    return base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4))
