"""Tokens that a guard must not take, each with the reason that it is denied for."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from joserfc.jwk import ECKey, OKPKey, RSAKey
from tests.unit.onbe.client.stage import ISSUER, RESOURCE, issuer_key
from tests.unit.onbe.guard.issuer import Issuer, part

OTHER = ECKey.generate_key("P-256", {"kid": "issuer-key"}, private=True)


def unsigned(issuer: Issuer, **header: str) -> str:
    return f"{part({'kid': 'issuer-key', 'typ': 'at+jwt', **header})}.{part(issuer.claims())}."


def confused(issuer: Issuer) -> str:
    """HS256 with the public key's own text as the secret, which a verifier that believes `alg` takes for one."""
    signed = unsigned(issuer, alg="HS256")[:-1]
    secret = issuer_key().as_pem(private=False)
    return f"{signed}.{part(hmac.digest(secret, signed.encode(), 'sha256'))}"


def spliced(issuer: Issuer) -> str:
    """The claims of another between the header and the signature of a good one."""
    header, _, signature = issuer.token().split(".")
    return f"{header}.{part(issuer.claims(sub='eve'))}.{signature}"


def ending(issuer: Issuer, after: float) -> dict[str, object]:
    return {"id": "task_1", "exp": int(issuer.world.now() + after)}


Attack = Callable[[Issuer], str]

ATTACKS: dict[str, tuple[Attack, str]] = {
    "no signature": (lambda i: unsigned(i, alg="none"), "algorithm"),
    "NONE": (lambda i: unsigned(i, alg="NONE"), "algorithm"),
    "no alg": (unsigned, "malformed"),
    "HS256 with the public key": (confused, "algorithm"),
    "another key": (lambda i: i.token(key=OTHER), "signature"),
    "RS256": (lambda i: i.token(alg="RS256", key=RSAKey.generate_key(2048)), "algorithm"),
    "EdDSA": (lambda i: i.token(alg="EdDSA", key=OKPKey.generate_key("Ed25519")), "algorithm"),
    "its own key in the header": (lambda i: i.token(key=OTHER, jwk=OTHER.as_dict(private=False)), "signature"),
    "an address of keys": (lambda i: i.token(key=OTHER, jku="https://evil.test/jwks.json"), "signature"),
    "a certificate": (lambda i: i.token(key=OTHER, x5c=["MIIB"], x5u="https://evil.test/x"), "signature"),
    "crit": (lambda i: i.token(crit=["exp"], exp=1), "malformed"),
    "b64": (lambda i: i.token(crit=["b64"], b64=False), "malformed"),
    "no kid": (lambda i: i.token(kid=None), "malformed"),
    "a kid that is none": (lambda i: i.token(kid=["issuer-key"]), "malformed"),
    "an unknown kid": (lambda i: i.token(kid="other"), "key_unknown"),
    "a kid that is a path": (lambda i: i.token(kid="../../etc/passwd"), "key_unknown"),
    "typ JWT": (lambda i: i.token(typ="JWT"), "typ"),
    "no typ": (lambda i: i.token(typ=None), "typ"),
    "an id token's typ": (lambda i: i.token(typ="id+jwt"), "typ"),
    "another issuer": (lambda i: i.token(i.claims(iss="https://evil.test")), "issuer"),
    "an issuer with ours before it": (lambda i: i.token(i.claims(iss=f"{ISSUER}.evil.test")), "issuer"),
    "an issuer with a slash": (lambda i: i.token(i.claims(iss=f"{ISSUER}/")), "issuer"),
    "no issuer": (lambda i: i.token(i.claims(iss=None)), "issuer"),
    "another audience": (lambda i: i.token(i.claims(aud="https://mail.test")), "audience"),
    "an audience with ours before it": (lambda i: i.token(i.claims(aud=f"{RESOURCE}.evil.test")), "audience"),
    "an audience below ours": (lambda i: i.token(i.claims(aud=f"{RESOURCE}/below")), "audience"),
    "two audiences": (lambda i: i.token(i.claims(aud=[RESOURCE, "https://mail.test"])), "audience"),
    "no audience": (lambda i: i.token(i.claims(aud=None)), "audience"),
    "expired": (lambda i: i.token(i.claims(exp=int(i.world.now()) - 5)), "expired"),
    "a task that has ended": (lambda i: i.token(i.claims(task=ending(i, 0))), "expired"),
    "a token that outlives its task": (lambda i: i.token(i.claims(task=ending(i, 29))), "expired"),
    "no exp": (lambda i: i.token(i.claims(exp=None)), "times"),
    "exp as a text": (lambda i: i.token(i.claims(exp="9999999999")), "times"),
    "exp true": (lambda i: i.token(i.claims(exp=True)), "times"),
    "an endless exp": (lambda i: i.token(payload=b'{"iss":"https://onbe.test","exp":Infinity}'), "malformed"),
    "issued in the future": (lambda i: i.token(i.claims(iat=int(i.world.now()) + 20)), "not_yet"),
    "not before the future": (lambda i: i.token(i.claims(nbf=int(i.world.now()) + 20)), "not_yet"),
    "no task": (lambda i: i.token(i.claims(task=None)), "task"),
    "a task without an end": (lambda i: i.token(i.claims(task={"id": "t"})), "times"),
    "no actor": (lambda i: i.token(i.claims(act=None)), "actor"),
    "an actor that is none": (lambda i: i.token(i.claims(act="reports")), "actor"),
    "another client": (lambda i: i.token(i.claims(client_id="other")), "actor"),
    "no person": (lambda i: i.token(i.claims(sub=None)), "claims"),
    "a person that is none": (lambda i: i.token(i.claims(sub=["anna"])), "claims"),
    "no jti": (lambda i: i.token(i.claims(jti=None)), "claims"),
    "a scope that is none": (lambda i: i.token(i.claims(scope=["files:read"])), "scope"),
    "claims that are none": (lambda i: i.token(payload=b"[]"), "malformed"),
    "claims that nest": (lambda i: i.token(payload=b'{"a":' * 4000 + b"1" + b"}" * 4000), "malformed"),
    "a header that is none": (lambda i: f"{part([['alg', 'ES256']])}.{part(i.claims())}.AAAA", "malformed"),
    "a header that is large": (lambda i: i.token(x="x" * 5000), "malformed"),
    "a token that is large": (lambda i: i.token(i.claims(x="x" * 20_000)), "malformed"),
    "two parts": (lambda i: i.token().rpartition(".")[0], "malformed"),
    "four parts": (lambda i: f"{i.token()}.AAAA", "malformed"),
    "five parts": (lambda i: f"{i.token()}.A.B", "malformed"),
    "nothing": (lambda i: "", "malformed"),
    "dots": (lambda i: "..", "malformed"),
    "letters of elsewhere": (lambda i: f"{i.token()}é", "malformed"),
    "its signature cut": (lambda i: i.token()[:-4], "signature"),
    "its signature left out": (lambda i: f"{i.token().rpartition('.')[0]}.", "signature"),
    "its claims changed": (spliced, "signature"),
}  # fmt: skip
