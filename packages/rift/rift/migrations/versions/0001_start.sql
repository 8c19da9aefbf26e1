-- People ------------------------------------------------------------------------------------------------------------
CREATE TABLE users (
    id text PRIMARY KEY,
    email text NOT NULL,
    admin boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX users_email ON users (lower(email));

CREATE TABLE orgs (
    id text PRIMARY KEY,
    name text NOT NULL,
    personal_of text UNIQUE REFERENCES users,
    created_at timestamptz NOT NULL
);

CREATE TABLE members (
    org text NOT NULL REFERENCES orgs,
    user_id text NOT NULL REFERENCES users,
    role text NOT NULL CHECK (role IN ('member', 'admin')),
    PRIMARY KEY (org, user_id)
);
CREATE INDEX members_user ON members (user_id);

CREATE TABLE tokens (
    id text PRIMARY KEY,
    user_id text NOT NULL REFERENCES users,
    client text NOT NULL,
    sha256 bytea NOT NULL UNIQUE,
    created_at timestamptz NOT NULL,
    used_at timestamptz,
    revoked_at timestamptz
);

-- Repositories --------------------------------------------------------------------------------------------------------
CREATE TABLE repos (
    id text PRIMARY KEY,
    org text NOT NULL REFERENCES orgs,
    owner text NOT NULL,
    name text NOT NULL,
    url text NOT NULL,
    network text NOT NULL DEFAULT 'proxy' CHECK (network IN ('none', 'proxy')),
    allow text[] NOT NULL DEFAULT '{}',
    synced_at timestamptz,
    failure text,
    sync_epoch bigint NOT NULL DEFAULT 0,
    sync_until timestamptz,
    created_at timestamptz NOT NULL,
    UNIQUE (org, owner, name)
);

CREATE TABLE heads (
    repo text NOT NULL REFERENCES repos ON DELETE CASCADE,
    ref text NOT NULL,
    commit text NOT NULL,
    PRIMARY KEY (repo, ref)
);

CREATE TABLE watches (
    repo text NOT NULL REFERENCES repos ON DELETE CASCADE,
    ref text NOT NULL,
    warm integer NOT NULL CHECK (warm BETWEEN 0 AND 100),
    failure text,
    failure_commit text,
    failure_at timestamptz,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (repo, ref)
);

-- Tasks ---------------------------------------------------------------------------------------------------------------
CREATE TABLE tasks (
    id text PRIMARY KEY,
    owner text NOT NULL REFERENCES users,
    name text NOT NULL,
    status text NOT NULL CHECK (status IN ('open', 'closed')),
    secret_sha256 bytea,
    holder text,
    held_since timestamptz,
    activity_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    closed_at timestamptz,
    CHECK ((secret_sha256 IS NULL) = (holder IS NULL) AND (holder IS NULL) = (held_since IS NULL)),
    CHECK ((status = 'closed') = (closed_at IS NOT NULL)),
    CHECK (status = 'open' OR secret_sha256 IS NULL)
);
CREATE INDEX tasks_owner ON tasks (owner) WHERE status = 'open';
CREATE INDEX tasks_quiet ON tasks (activity_at) WHERE status = 'open';

-- Boxes ---------------------------------------------------------------------------------------------------------------
CREATE TABLE boxes (
    id text PRIMARY KEY,
    name text NOT NULL,
    number integer NOT NULL,
    repo text NOT NULL REFERENCES repos,
    ref text NOT NULL,
    commit text NOT NULL,
    task text REFERENCES tasks,
    state text NOT NULL CHECK (state IN ('starting', 'running', 'parked', 'destroying', 'destroyed', 'failed')),
    failure text,
    lacks text NOT NULL DEFAULT '',
    incarnation integer NOT NULL DEFAULT 0,
    tries integer NOT NULL DEFAULT 0,
    epoch bigint NOT NULL DEFAULT 0,
    token_sha256 bytea,
    next_command integer NOT NULL DEFAULT 1,
    seen_at timestamptz,
    used_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    ended_at timestamptz,
    CHECK ((state = 'destroyed') = (ended_at IS NOT NULL))
);
CREATE UNIQUE INDEX boxes_number ON boxes (repo, ref, number) WHERE state <> 'destroyed';
CREATE INDEX boxes_task ON boxes (task) WHERE task IS NOT NULL;
CREATE INDEX boxes_warm ON boxes (repo, ref, commit) WHERE task IS NULL AND state = 'running';
CREATE INDEX boxes_living ON boxes (state) WHERE state <> 'destroyed';

-- Commands ------------------------------------------------------------------------------------------------------------
CREATE TABLE commands (
    box text NOT NULL REFERENCES boxes,
    n integer NOT NULL,
    kind text NOT NULL CHECK (kind IN ('bash', 'read', 'write')),
    input text NOT NULL,
    content text,
    timeout integer NOT NULL CHECK (timeout BETWEEN 1 AND 259200),
    state text NOT NULL CHECK (state IN ('queued', 'claimed', 'finished', 'unrun', 'lost')),
    stop_wanted boolean NOT NULL DEFAULT false,
    incarnation integer,
    exit integer,
    reason text,
    media text,
    size bigint,
    tail bytea,
    created_at timestamptz NOT NULL,
    claimed_at timestamptz,
    ended_at timestamptz,
    PRIMARY KEY (box, n),
    CHECK ((state IN ('queued', 'claimed')) = (ended_at IS NULL)),
    CHECK ((state = 'claimed') <= (incarnation IS NOT NULL))
);
CREATE INDEX commands_open ON commands (box) WHERE state IN ('queued', 'claimed');
CREATE INDEX commands_queued ON commands (created_at) WHERE state = 'queued';

-- A question to a box's agent and its answer: the bytes of an output that only the box has.
CREATE UNLOGGED TABLE asks (
    id text PRIMARY KEY,
    box text NOT NULL,
    n integer NOT NULL,
    from_byte bigint NOT NULL,
    at_most integer NOT NULL,
    first bigint,
    size bigint,
    data bytea,
    answered boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL
);
CREATE INDEX asks_box ON asks (box) WHERE NOT answered;

-- The ledger ----------------------------------------------------------------------------------------------------------
CREATE SEQUENCE ledger_seq;
CREATE TABLE ledger (
    seq bigint NOT NULL DEFAULT nextval('ledger_seq'),
    at timestamptz NOT NULL,
    txid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    actor text,
    via text,
    action text NOT NULL,
    task text,
    box text,
    outcome text NOT NULL,
    duration_ms double precision NOT NULL,
    arguments jsonb NOT NULL,
    text_sha256 bytea,
    PRIMARY KEY (seq, at)
) PARTITION BY RANGE (at);
CREATE INDEX ledger_actor ON ledger (actor, seq);
CREATE INDEX ledger_task ON ledger (task, seq) WHERE task IS NOT NULL;
CREATE INDEX ledger_box ON ledger (box, seq) WHERE box IS NOT NULL;
CREATE TABLE ledger_rest PARTITION OF ledger DEFAULT;

CREATE TABLE ledger_texts (
    seq bigint PRIMARY KEY,
    at timestamptz NOT NULL,
    salt text NOT NULL,
    text text NOT NULL
);

CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only';
END $$;
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON ledger FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON ledger_rest FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();

-- Makes the month's partition that holds an instant; runs as its owner, so the runtime role needs no right to create.
-- A month whose rows have begun in ledger_rest stays there.
CREATE FUNCTION ledger_month(instant timestamptz) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
DECLARE
    since timestamptz := date_trunc('month', instant, 'UTC');
    partition text := 'ledger_' || to_char(since AT TIME ZONE 'UTC', 'YYYY_MM');
BEGIN
    IF to_regclass(partition) IS NULL
       AND NOT EXISTS (SELECT FROM ledger_rest WHERE at >= since AND at < since + interval '1 month') THEN
        PERFORM pg_advisory_xact_lock(hashtext(partition));
        EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF ledger FOR VALUES FROM (%L) TO (%L)',
                       partition, since, since + interval '1 month');
        EXECUTE format('CREATE OR REPLACE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON %I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only()', partition);
    END IF;
END $$;
