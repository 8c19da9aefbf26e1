"""Who and what the pages show: a newcomer with nothing, and a person with everything, oddly named."""

from __future__ import annotations

import json

from keel.db import Tx
from keel.refusal import Refusal
from rift.deps import Deps
from rift.drivers.github.fake import APP, FakeGitHub
from rift.logins import actions as logins
from rift.people import actions as people
from rift.people.model import User

ADA, GRACE, NEWCOMER = "ada@example.com", "grace@example.com", "newcomer@example.com"
"""The platform admin who has everything; another person; who has just come."""
ODD = "o" * 64 + "@" + "long." * 20 + "example.com"
"""A plain member of an organization that Ada is an admin of."""
LONG = "a-name-that-goes-on-and-on-without-any-place-to-break-" * 3
MARKUP = "<script>alert('pwned')</script><img src=x onerror=alert(1)> & “quotes” \u202eright to left"

REPOS = """
    INSERT INTO repos (id, org, owner, name, url, synced_at, created_at)
    SELECT 'repo_' || name, %(org)s, 'acme', name, 'https://example.org/acme/' || name || '.git', synced, %(now)s
    FROM (VALUES ('app', %(now)s::timestamptz), ('web', NULL)) AS one (name, synced)
"""
HEADS = """
    INSERT INTO heads (repo, ref, commit)
    VALUES ('repo_app', 'main', repeat('5d8e2179', 5)), ('repo_app', %(long)s, repeat('a0b1c2d3', 5))
"""
WATCHES = """
    INSERT INTO watches (repo, ref, warm, failure, failure_commit, failure_at, created_at) VALUES
        ('repo_app', 'main', 2, NULL, NULL, NULL, %(now)s),
        ('repo_app', %(long)s, 1, %(markup)s || repeat(E'\\nnot found: ' || %(long)s, 40), repeat('a0b1c2d3', 5),
         %(now)s, %(now)s)
"""
HUB = """
    INSERT INTO github_accounts (installation, org, account_id, login, kind, enabled, suspended_at, failure, untaken,
                                 connected_at, covered_at)
    VALUES (71, %(org)s, 1, 'acme-inc', 'Organization', true, NULL, NULL, ARRAY['acme-inc/-x: ' || %(markup)s],
            %(now)s, %(now)s),
           (72, %(org)s, 2, 'labs', 'Organization', false, NULL, %(markup)s || repeat(%(long)s, 4), '{}',
            %(now)s, NULL),
           (73, %(org)s, 3, 'gone-quiet', 'User', true, %(now)s, NULL, '{}', %(now)s, %(now)s)
"""
COVERED = """
    INSERT INTO repos (id, org, owner, name, url, created_at, forge, account, github_id, default_branch, archived)
    SELECT 'repo_hub' || n, %(org)s, 'acme-inc', left(CASE WHEN n = 1 THEN %(long)s ELSE 'service-' || n END, 100),
           'https://github.com/acme-inc/service-' || n || '.git', %(now)s, 'github', 71, n, 'main', n = 2
    FROM generate_series(1, 120) AS n
"""
BUILDS = """
    INSERT INTO environments (id, repo, commit, state, epoch, failure, lacks, wanted_at, began_at, ended_at) VALUES
        ('env_1', 'repo_app', repeat('5d8e2179', 5), 'building', 1, NULL, '', %(now)s, %(now)s, NULL),
        ('env_2', 'repo_app', repeat('a0b1c2d3', 5), 'failed', 1, %(markup)s || repeat(%(long)s, 9), %(long)s, %(now)s,
         %(now)s, %(now)s)
"""
SAID = """
    INSERT INTO environment_logs (environment, epoch, first, data)
    SELECT id, 1, 0, convert_to(%(markup)s || E'\nbuilding ' || repeat(%(long)s, 4) || E'\n', 'UTF8')
    FROM environments
"""
TASKS = """
    INSERT INTO tasks (id, owner, name, status, secret_sha256, holder, held_since, activity_at, created_at)
    SELECT id, %(user)s, name, 'open', CASE WHEN holder IS NULL THEN NULL ELSE '\\x00'::bytea END, holder,
           CASE WHEN holder IS NULL THEN NULL ELSE %(now)s END, %(now)s, %(now)s - interval '9 minutes'
    FROM (VALUES ('task_aaaa2222', %(markup)s, 'mcp:Claude'), ('task_bbbb3333', %(long)s, NULL),
                 ('task_cccc4444', 'fix the parser', %(markup)s)) AS one (id, name, holder)
"""
BOXES = """
    INSERT INTO boxes (id, name, number, repo, ref, commit, task, state, failure, seen_at, used_at, created_at)
    SELECT 'b-' || repeat(n::text, 24), 'app-main-' || n, n, 'repo_app', ref, repeat('5d8e2179', 5), 'task_aaaa2222',
           state, failure, %(now)s, %(now)s, %(now)s
    FROM (VALUES (1, 'main', 'running', NULL), (2, 'main', 'parked', NULL), (3, 'main', 'starting', NULL),
                 (4, 'main', 'failed', %(markup)s), (5, %(long)s, 'running', NULL)) AS one (n, ref, state, failure)
"""
COMMANDS = """
    INSERT INTO commands (box, n, kind, input, timeout, state, incarnation, created_at, claimed_at)
    VALUES ('b-' || repeat('1', 24), 1, 'bash', %(markup)s, 600, 'claimed', 1, %(now)s, %(now)s)
"""
PEOPLE = """
    INSERT INTO users (id, email, admin, created_at, disabled_at)
    SELECT 'user_' || id, email, false, %(now)s - interval '40 days', out
    FROM (VALUES ('odd', repeat('o', 64) || '@' || repeat('long.', 20) || 'example.com', NULL),
                 ('out', 'out@example.com', %(now)s::timestamptz)) AS one (id, email, out)
"""
TEAMS = """
    INSERT INTO orgs (id, name, created_at)
    VALUES ('org_engines', left(%(long)s, 64), %(now)s), ('org_tables', %(markup)s, %(now)s)
"""
MEMBERS = """
    INSERT INTO members (org, user_id, role, joined_at) VALUES
        ('org_engines', %(user)s, 'admin', %(now)s), ('org_engines', 'user_odd', 'member', %(now)s),
        ('org_engines', 'user_out', 'admin', %(now)s), ('org_tables', 'user_odd', 'admin', %(now)s)
"""
INVITATIONS = """
    INSERT INTO invitations (id, org, email, role, invited_by, created_at, expires_at)
    SELECT 'inv_' || n, org, email, role, by, %(now)s, %(now)s + interval '14 days'
    FROM (VALUES (1, 'org_engines', repeat('i', 64) || '@example.com', 'member', %(user)s),
                 (2, 'org_engines', 'soon@example.com', 'admin', NULL),
                 (3, 'org_tables', %(email)s, 'admin', 'user_odd'),
                 (4, NULL, 'account@example.com', 'member', %(user)s)) AS one (n, org, email, role, by)
"""
WAITLIST = """
    INSERT INTO waitlist (id, email, name, organization, note, joined_at)
    SELECT 'wait_' || n, email, name, organization, note, %(now)s - n * interval '1 hour'
    FROM (VALUES (1, 'waits@example.com', '', '', ''), (2, 'soon@example.com', 'Sun', 'Tables & co', 'to try it'),
                 (3, repeat('w', 64) || '@example.com', %(markup)s, %(long)s, repeat(%(long)s || ' ', 8))
         ) AS one (n, email, name, organization, note)
"""
RECORDS = """
    WITH made AS (
        INSERT INTO ledger (at, actor, via, action, task, box, outcome, duration_us, arguments, text_sha256)
        SELECT %(now)s - make_interval(mins => n), %(user)s,
               CASE WHEN n %% 7 = 0 THEN 'web' WHEN n = 3 THEN 'mcp:' || %(markup)s ELSE 'mcp:Claude' END,
               CASE WHEN n %% 7 = 0 THEN 'web sign in' WHEN n %% 3 = 0 THEN 'rift_vm_new' ELSE 'rift_bash' END,
               CASE WHEN n %% 7 = 0 THEN NULL ELSE 'task_aaaa2222' END,
               CASE WHEN n %% 7 = 0 THEN NULL ELSE 'b-' || repeat('1', 24) END,
               CASE WHEN n %% 11 = 0 THEN 'error' WHEN n %% 5 = 0 THEN 'commands_open' ELSE 'ok' END, 700 * n * n,
               jsonb_build_object('vm', %(long)s::text, 'block_for', n, 'path', %(markup)s::text),
               CASE WHEN n %% 7 = 0 THEN NULL ELSE sha256(convert_to('salt' || %(markup)s, 'UTF8')) END
        FROM generate_series(1, 120) n
        RETURNING seq, at, text_sha256
    )
    INSERT INTO ledger_texts (seq, at, salt, text)
    SELECT seq, at, 'salt', %(markup)s FROM made WHERE text_sha256 IS NOT NULL
"""
LETTERS = """
    INSERT INTO letters (id, kind, email, facts, created_at, until, next_at, tries, failure, sent_at)
    SELECT 'let_' || n, kind, email, facts::jsonb, %(now)s - n * interval '1 hour', %(now)s + interval '1 day', next_at,
           tries, failure, sent
    FROM (VALUES
        (1, 'sign_in', %(email)s, '{"next": ""}', %(now)s::timestamptz, 0, NULL, NULL::timestamptz),
        (2, 'feedback', %(email)s, '{"sender": "grace@example.com", "items": 3, "path": "/app/inbox"}', %(now)s, 2,
         %(markup)s || repeat(%(long)s, 4), NULL),
        (3, 'trial', repeat('t', 64) || '@example.com', '{}', NULL, 1, '550 no such mailbox', NULL),
        (4, 'trial', 'out@example.com', '{}', NULL, 1, NULL, %(now)s)
    ) AS one (n, kind, email, facts, next_at, tries, failure, sent)
"""
FEEDBACK = """
    INSERT INTO feedback (id, user_id, client, category, text, context, created_at, edited_at, submitted_at, handled_at)
    SELECT 'fb_' || n, %(user)s, client, category, text, context, %(now)s, edited, submitted, handled
    FROM (VALUES
        (1, 'Claude', 'bug', 'rift_vm_new took 40 s', 'request r-0c1d2e3f4a5b', NULL::timestamptz, NULL::timestamptz,
         NULL::timestamptz),
        (2, %(markup)s, 'improvement', %(markup)s || E'\\n\\n' || repeat(%(long)s, 9), repeat(%(long)s, 9), %(now)s,
         NULL, NULL),
        (3, 'Claude', 'bug', repeat(%(long)s, 9), %(markup)s, NULL, %(now)s, NULL),
        (4, %(long)s, 'improvement', %(markup)s, '', NULL, %(now)s, %(now)s)
    ) AS one (n, client, category, text, context, edited, submitted, handled)
"""


APP_ROW = """
    INSERT INTO github_app (app_id, slug, html_url, client_id, sealed)
    VALUES (%(id)s, %(slug)s, %(url)s, %(client)s, %(sealed)s)
"""
ACCOUNTS = """
    INSERT INTO github_accounts
        (installation, org, account_id, login, kind, enabled, suspended_at, removed_at, connected_at, failure)
    SELECT n + 80, org, n + 80, login, kind, enabled, suspended, removed, %(now)s, failure
    FROM (VALUES (1, 'org_engines', 'engines-inc', 'Organization', true, NULL::timestamptz,
                  NULL::timestamptz, NULL::text),
                 (2, 'org_engines', repeat('a', 39), 'Organization', false, NULL, NULL, NULL),
                 (3, 'org_engines', 'engines-labs', 'Organization', true, %(now)s, NULL, NULL),
                 (4, 'org_engines', 'engines-old', 'Organization', true, NULL, %(now)s, NULL),
                 (5, 'org_engines', 'engines-odd', 'Organization', true, NULL, NULL, left(%(markup)s || %(long)s, 300)),
                 (6, %(org)s, 'ada-l', 'User', true, NULL, NULL, NULL)
         ) AS one (n, org, login, kind, enabled, suspended, removed, failure)
"""


async def _at_github(tx: Tx, deps: Deps, user: str) -> None:
    """An App that was made here, whose person has logged in, and installations that could be connected."""
    hub = deps.github
    assert isinstance(hub, FakeGitHub)
    for login in ("engines-new", "b" * 39):
        hub.install(login, "Organization", "ada-l")
    names = ("client_secret", "private_key", "webhook_secret")
    secrets = json.dumps({name: getattr(APP, name) for name in names}).encode()
    told = {"id": APP.id, "slug": APP.slug, "url": APP.html_url, "client": APP.client_id}
    await tx.run(APP_ROW, {**told, "sealed": deps.vault.seal(secrets, "github app")})
    assert await logins.keep(tx, deps, user, hub.account("ada-l"), hub.person("ada-l"))


SECRETS = """
    INSERT INTO secrets (repo, name, sealed, bytes, set_by, set_at)
    SELECT repo, name, CASE WHEN shut THEN decode(repeat('01', 60), 'hex') ELSE %(sealed)s END, 24, by, %(now)s
    FROM (VALUES ('repo_app', 'API_KEY', false, %(user)s), ('repo_app', 'FROM_THE_TERMINAL', false, NULL),
                 ('repo_app', repeat('N', 128), true, 'user_odd'), ('repo_engine', 'TOKEN', false, %(user)s)
         ) AS one (repo, name, shut, by)
"""


async def _secrets(tx: Tx, deps: Deps, user: str) -> None:
    """Secrets of two repositories; one was sealed by a key that is not here. The pages open none of them."""
    now = deps.clock.now()
    await tx.run(
        "INSERT INTO repos (id, org, owner, name, url, created_at)"
        " VALUES ('repo_engine', 'org_engines', 'engines', 'core', 'https://example.org/engines/core.git', %(now)s)",
        {"now": now},
    )
    await tx.run(SECRETS, {"user": user, "sealed": deps.vault.seal(b"sk_live_4242424242424242", "a page"), "now": now})


async def make_world(deps: Deps) -> None:
    """Make all of it: people by the actions, by statements what only agents do."""
    for email in (ADA, GRACE, NEWCOMER):
        assert isinstance(await people.add_user(deps, email, email == ADA), User)
    for client in ("Claude", MARKUP):
        assert not isinstance(await people.new_token(deps, ADA, client), Refusal)
    async with deps.db.tx() as tx:
        await _fill(tx, deps)


async def _fill(tx: Tx, deps: Deps) -> None:
    user = await people.find(tx, ADA)
    assert user is not None
    (personal,) = await people.memberships(tx, user.id)
    facts = {
        "user": user.id,
        "org": personal.org,
        "now": deps.clock.now(),
        "long": LONG,
        "markup": MARKUP,
        "email": ADA,
    }
    work = (REPOS, HEADS, WATCHES, HUB, COVERED, BUILDS, SAID, TASKS, BOXES, COMMANDS)
    for statement in (*work, PEOPLE, TEAMS, MEMBERS, INVITATIONS, WAITLIST, RECORDS, LETTERS, FEEDBACK, ACCOUNTS):
        await tx.run(statement, facts)
    await _at_github(tx, deps, user.id)
    await _secrets(tx, deps, user.id)
