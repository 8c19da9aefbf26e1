"""`onbe conformance`: whether a running server keeps its promises, tried through its public endpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onbe.cli.agents import KeyFileOption, UrlOption, server, usage
from onbe.cli.place import DataOption, JsonOption, note

if TYPE_CHECKING:  # imported by the command when it runs, so that `onbe --help` is quick
    import httpx2
    from joserfc.jwk import ECKey

    from keel.clock import Clock
    from keel.ids import Ids
    from onbe.conformance.people import People
    from onbe.conformance.run import Outcome

PASSED, FAILED, USAGE = 0, 1, 2


def conformance(
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    data: DataOption = None,
    list_cases: Annotated[bool, typer.Option("--list", help="List the cases, and run none.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Only this case, or those that begin so.")
    ] = None,
    command: Annotated[
        str | None,
        typer.Option("--subject-token-command", metavar="CMD", help="Prints a person's token; is given the scope."),
    ] = None,
    issuer_key: Annotated[
        Path | None,
        typer.Option("--issuer-key", metavar="PEM", help="The ES256 key of a provider that the server trusts."),
    ] = None,
    issuer: Annotated[
        str | None, typer.Option("--issuer", metavar="URL", help="With --issuer-key: what its tokens say as iss.")
    ] = None,
    audience: Annotated[
        str | None, typer.Option("--audience", metavar="NAME", help="With --issuer-key: what they say as aud.")
    ] = None,
    person: Annotated[
        str | None, typer.Option("--person", metavar="NAME", help="With --issuer-key: an active person, their sub.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Try a running server's promises.

    Each case provokes one refusal, or looks at one promise, and then finds it on the record. It registers throw-away
    agents, named conformance-..., and removes or disables them at the end. The person is that of a development start,
    unless a command or key says otherwise; they are blocked for a moment, where no other agent has a task of theirs.
    The last two cases wait for a task to end: up to a minute.

    Exit codes: 0 all passed, 1 one failed, 2 it cannot be run. What could not be tried is told as not run.

    Example: onbe conformance --url http://127.0.0.1:7434 --admin-key-file admin.key
    """
    import httpx2

    from keel.clock import SystemClock
    from keel.ids import SystemIds
    from onbe.conformance.bench import SECONDS, Bench, is_local
    from onbe.conformance.case import NotRun
    from onbe.conformance.run import chosen, run

    try:
        cases = chosen(only or [])
    except KeyError as error:
        usage(f"no case is called {error.args[0]}; --list lists them")
    if list_cases:
        told = [{"name": one.name, "sentence": one.sentence} for one in cases]
        width = max(len(one.name) for one in cases)
        print(json.dumps(told, indent=2) if as_json else "\n".join(f"{c.name:<{width}}  {c.sentence}" for c in cases))
        return
    where, key = server(url, key_file, data)
    clock, ids = SystemClock(), SystemIds()
    with httpx2.Client(timeout=SECONDS, trust_env=not is_local(where)) as http:
        try:
            people = _people(http, where, command, issuer_key, (issuer, audience, person), clock, ids)
            bench = Bench(http, where.rstrip("/"), key, clock, ids, people)
            bench.discover()
            if bench.admin("GET", "/admin/agents").status_code != 200:
                usage("the admin key is not taken by the server")
        except NotRun as lack:
            usage(str(lack))
        outcomes = []
        for outcome in run(bench, cases):
            outcomes.append(outcome)
            if not as_json:
                print(_line(outcome), flush=True)
    if bench.left:
        note(f"onbe: these agents could not be disabled, do it by hand: {', '.join(bench.left)}")
    failed = [one for one in outcomes if one.state == "failed"]
    _sum(outcomes, as_json=as_json)
    raise typer.Exit(FAILED if failed else PASSED)


def _people(
    http: httpx2.Client,
    url: str,
    command: str | None,
    key: Path | None,
    says: tuple[str | None, str | None, str | None],
    clock: Clock,
    ids: Ids,
) -> People:
    from onbe.conformance.bench import people_of
    from onbe.conformance.people import OfCommand, OfKey

    if command is not None:
        return OfCommand(command)
    if key is None:
        return people_of(http, url.rstrip("/"))
    iss, aud, sub = says
    if not iss or not aud or not sub:
        usage("--issuer-key goes with --issuer, --audience and --person")
    return OfKey(_read(key), None, {"iss": iss, "aud": aud, "sub": sub}, clock, ids)


def _read(path: Path) -> ECKey:
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey

    try:
        key = ECKey.import_key(path.read_bytes())
    except (OSError, JoseError, ValueError):
        usage(f"{path} holds no ES256 key as PEM")
    if not key.is_private or key.curve_name != "P-256":
        usage(f"{path} holds no private ES256 key as PEM")
    return key


def _line(outcome: Outcome) -> str:
    why = f"\n         {outcome.why}" if outcome.why else ""
    return f"{outcome.state:<8} {outcome.case.name}: {outcome.case.sentence}{why}"


def _sum(outcomes: list[Outcome], *, as_json: bool) -> None:
    counts = {state: sum(one.state == state for one in outcomes) for state in ("passed", "failed", "not run")}
    if as_json:
        told = [
            {"name": one.case.name, "sentence": one.case.sentence, "state": one.state, "why": one.why or None}
            for one in outcomes
        ]
        print(
            json.dumps({**{name.replace(" ", "_"): count for name, count in counts.items()}, "cases": told}, indent=2)
        )
        return
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
