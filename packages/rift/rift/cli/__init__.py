"""`rift`: the command line. Every command has a help with an example and finds the running system by `--data`."""

from __future__ import annotations

import logging
import sys
from typing import Annotated, Any

import structlog
import typer

from rift.cli import audit, people, repos, system

app = typer.Typer(
    name="rift",
    help="Disposable boxes for coding agents, grouped into leased tasks, over MCP.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

for command in (system.up, system.down, system.serve, system.worker, system.migrate, system.doctor, system.settings):
    app.command()(command)
app.command("demo")(system.demo)
app.add_typer(people.users, name="user")
app.add_typer(people.tokens, name="token")
app.add_typer(repos.app, name="repo")
app.add_typer(audit.app, name="audit")


_DATABASE_AWAY = frozenset({"OperationalError", "AdminShutdown", "CrashShutdown", "PoolTimeout", "ConnectorException"})
"""By name, as importing their modules would slow every --help."""


class _Logs(logging.Formatter):
    """Libraries' own log lines. That the database is away is said in a line; a traceback would not say where."""

    def formatException(self, ei: Any) -> str:
        error: BaseException | None = ei[1]
        while error is not None:
            if type(error).__name__ in _DATABASE_AWAY:
                return f"the database is away: {str(error).strip().partition(chr(10))[0]}"
            error = error.__cause__ or error.__context__
        return super().formatException(ei)


@app.callback()
def everywhere(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log what the system does, not only what fails.")
    ] = False,
) -> None:
    """Disposable boxes for coding agents, grouped into leased tasks, over MCP."""
    level = logging.INFO if verbose else logging.WARNING
    logs = logging.StreamHandler(sys.stderr)
    logs.setFormatter(_Logs("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[logs])
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # A traceback without the values of its variables: they may be secrets.
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ],
    )


def main() -> None:
    """The entry point of `rift`. A fault of ours is one sentence too, unless -v asks for all of it."""
    try:
        app()
    except Exception as error:
        if logging.getLogger().isEnabledFor(logging.INFO):
            raise
        told = " ".join(str(error).split()) or "no more is known"
        print(f"rift: a fault: {type(error).__name__}: {told}. `rift -v ...` tells where.", file=sys.stderr)
        sys.exit(1)
