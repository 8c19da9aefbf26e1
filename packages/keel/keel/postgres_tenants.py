"""Who lives in an embedded cluster: each with a database and two roles of its own, made when absent.

None gets into another's database. As root, each one's guest reaches the server through a socket folder of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import sql

from keel.postgres_host import PostgresError, Tenant

CONNECT_SECONDS = 10


def have(url: str, first: str, tenants: Sequence[Tenant]) -> None:
    """Have each tenant's roles and database, and their doors closed to each other's. Doing it again changes nothing.

    `url` is the superuser's, in the database postgres; `first` names who was there from the start. Raises
    PostgresError.
    """
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
            for tenant in tenants:
                _have(connection, tenant)
            for one in (Tenant(first), *tenants):
                database, runtime = sql.Identifier(one.name), sql.Identifier(one.runtime)
                connection.execute(sql.SQL("REVOKE CONNECT ON DATABASE {} FROM PUBLIC").format(database))
                connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, runtime))
    except psycopg.Error as error:
        raise PostgresError(f"a further database could not be made: {str(error).strip()}") from error


def admits(url: str) -> bool:
    """Whether the server lets somebody in."""
    try:
        psycopg.connect(url, connect_timeout=CONNECT_SECONDS).close()
    except psycopg.OperationalError:
        return False
    return True


def _have(connection: psycopg.Connection[tuple[object, ...]], tenant: Tenant) -> None:
    for role in (tenant.owner, tenant.runtime):
        known = connection.execute("SELECT rolcanlogin FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
        if known is None:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        elif not known[0]:
            connection.execute(sql.SQL("ALTER ROLE {} LOGIN").format(sql.Identifier(role)))
    if connection.execute("SELECT FROM pg_database WHERE datname = %s", (tenant.name,)).fetchone() is None:
        make = sql.SQL("CREATE DATABASE {} OWNER {}")
        connection.execute(make.format(sql.Identifier(tenant.name), sql.Identifier(tenant.owner)))
