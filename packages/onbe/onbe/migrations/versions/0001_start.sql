-- Agents that may ask -------------------------------------------------------------------------------------------------
CREATE TABLE agents (
    agent_id text PRIMARY KEY,
    display_name text NOT NULL,
    allowed_scopes text[] NOT NULL CHECK (cardinality(allowed_scopes) > 0),
    allowed_audiences text[] NOT NULL CHECK (cardinality(allowed_audiences) > 0),
    max_task_ttl interval,
    max_token_ttl interval,
    max_delegation_depth int NOT NULL CHECK (max_delegation_depth BETWEEN 1 AND 5),
    high_risk_audiences text[] NOT NULL,
    jwks_uri text,
    jwks jsonb,
    enabled boolean NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    tasks_ended_at timestamptz,
    CHECK ((jwks_uri IS NULL) <> (jwks IS NULL))
);

-- People they act for. A row is made by their first exchange or block; exchanges lock it in share mode, what ends
-- their tasks exclusively, so that of a block and an exchange in flight one comes before the other.
CREATE TABLE sponsors (
    key text PRIMARY KEY,
    blocks jsonb NOT NULL DEFAULT '{}',
    tasks_ended_at timestamptz
);

-- Tasks, each with its grant ------------------------------------------------------------------------------------------
CREATE TABLE tasks (
    id text PRIMARY KEY,
    agent text NOT NULL REFERENCES agents,
    sponsor text NOT NULL REFERENCES sponsors,
    audience text NOT NULL,
    scope text[] NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    parent text REFERENCES tasks,
    depth int NOT NULL,
    chain text[] NOT NULL,
    instance text,
    grant_sha256 bytea NOT NULL UNIQUE CHECK (length(grant_sha256) = 32),
    renewals int NOT NULL DEFAULT 0,
    ended_at timestamptz,
    "end" text CHECK ("end" IN ('expired', 'revoked')),
    end_reason text,
    CHECK ((ended_at IS NULL) = ("end" IS NULL)),
    CHECK (expires_at > created_at)
);
CREATE INDEX tasks_agent ON tasks (agent) WHERE ended_at IS NULL;
CREATE INDEX tasks_sponsor ON tasks (sponsor) WHERE ended_at IS NULL;
CREATE INDEX tasks_parent ON tasks (parent) WHERE parent IS NOT NULL;
CREATE INDEX tasks_open ON tasks (expires_at) WHERE ended_at IS NULL;
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX tasks_of_agent ON tasks (agent, id);
CREATE INDEX tasks_of_sponsor ON tasks (sponsor, id);

-- Assertions that were used: each `jti` once, for each agent.
CREATE TABLE assertions (
    agent text NOT NULL,
    jti_sha256 bytea NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (agent, jti_sha256)
);
CREATE INDEX assertions_until ON assertions (until);

-- Tokens that were revoked one by one; a task that has ended revokes all of its own without a row here.
CREATE TABLE revoked_tokens (
    jti text PRIMARY KEY,
    task text NOT NULL,
    at timestamptz NOT NULL,
    reason text NOT NULL,
    until timestamptz NOT NULL
);
CREATE INDEX revoked_tokens_until ON revoked_tokens (until);

-- Refusals that name nobody: the first of a reason and window is recorded, the others are counted.
CREATE TABLE strangers (
    reason text NOT NULL,
    since timestamptz NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (reason, since)
);

-- The ledger: keel.ledger says how it is used -------------------------------------------------------------------------
CREATE SEQUENCE ledger_seq;
CREATE TABLE ledger (
    seq bigint NOT NULL DEFAULT nextval('ledger_seq'),
    at timestamptz NOT NULL,
    actor text,
    via text,
    action text NOT NULL,
    task text,
    box text,
    outcome text NOT NULL,
    duration_us bigint NOT NULL,
    arguments jsonb NOT NULL,
    text_sha256 bytea,
    PRIMARY KEY (seq, at)
) PARTITION BY RANGE (at);
-- A page of the audit is found by an index, whatever is asked together: what was allowed and what was denied are looked
-- up apart and merged, so that neither is searched through for the other. A row stands in one set of these or the other.
-- `seq > 0` and `seq > -1` are true of every row, and said by a query for nobody's rows: of any other the planner would
-- guess that these three indexes soon come to what it asks for, and read through everybody's rows for one person's.
CREATE INDEX ledger_ok ON ledger (at, seq) WHERE outcome = 'ok' AND seq > 0;
CREATE INDEX ledger_ok_actor ON ledger (actor, at, seq) WHERE outcome = 'ok' AND actor IS NOT NULL;
CREATE INDEX ledger_ok_via ON ledger (via, at, seq) WHERE outcome = 'ok' AND via IS NOT NULL;
CREATE INDEX ledger_ok_pair ON ledger (actor, via, at, seq) WHERE outcome = 'ok' AND actor IS NOT NULL;
CREATE INDEX ledger_ok_task ON ledger (task, at, seq) WHERE outcome = 'ok' AND task IS NOT NULL;
CREATE INDEX ledger_refused ON ledger (at, seq) WHERE outcome <> 'ok' AND seq > 0;
CREATE INDEX ledger_refused_actor ON ledger (actor, at, seq) WHERE outcome <> 'ok' AND actor IS NOT NULL;
CREATE INDEX ledger_refused_via ON ledger (via, at, seq) WHERE outcome <> 'ok' AND via IS NOT NULL;
CREATE INDEX ledger_refused_pair ON ledger (actor, via, at, seq) WHERE outcome <> 'ok' AND actor IS NOT NULL;
CREATE INDEX ledger_refused_task ON ledger (task, at, seq) WHERE outcome <> 'ok' AND task IS NOT NULL;
CREATE INDEX ledger_reason ON ledger (outcome, at, seq) WHERE outcome <> 'ok' AND seq > -1;
CREATE INDEX ledger_reason_actor ON ledger (actor, outcome, at, seq) WHERE outcome <> 'ok' AND actor IS NOT NULL;
CREATE INDEX ledger_reason_via ON ledger (via, outcome, at, seq) WHERE outcome <> 'ok' AND via IS NOT NULL;
CREATE TABLE ledger_rest PARTITION OF ledger DEFAULT;

CREATE TABLE ledger_texts (
    seq bigint PRIMARY KEY,
    at timestamptz NOT NULL,
    salt text NOT NULL,
    text text NOT NULL
);

-- Which row stands where in the seal, and its hash.
CREATE TABLE ledger_leaves (
    position bigint PRIMARY KEY,
    seq bigint NOT NULL UNIQUE,
    leaf bytea NOT NULL CHECK (length(leaf) = 32)
);

CREATE TABLE ledger_keys (
    id text PRIMARY KEY,
    public bytea NOT NULL CHECK (length(public) = 32),
    at timestamptz NOT NULL,
    previous text,
    endorsement bytea
);

-- The signed roots. What is pending is for the next sealing, and not signed.
CREATE TABLE ledger_checkpoints (
    number bigint PRIMARY KEY,
    at timestamptz NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL UNIQUE,
    root bytea NOT NULL CHECK (length(root) = 32),
    previous bytea CHECK (length(previous) = 32),
    settled bigint NOT NULL,
    key text NOT NULL REFERENCES ledger_keys,
    signature bytea NOT NULL,
    pending_upto bigint,
    pending_holders text[],
    CHECK (first <= last)
);

-- Months whose rows went to a file: what the file holds, signed. Only the owner adds one.
CREATE TABLE ledger_archives (
    month date PRIMARY KEY,
    at timestamptz NOT NULL,
    positions text NOT NULL,
    count bigint NOT NULL,
    root bytea NOT NULL CHECK (length(root) = 32),
    file_sha256 bytea NOT NULL CHECK (length(file_sha256) = 32),
    record bigint NOT NULL,
    key text NOT NULL REFERENCES ledger_keys,
    signature bytea NOT NULL
);

-- How far the sink has what was sealed, and who is handing it on at this moment.
CREATE TABLE ledger_sink (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    position bigint NOT NULL DEFAULT 0,
    failures int NOT NULL DEFAULT 0,
    not_before timestamptz,
    holder text,
    held_until timestamptz
);
INSERT INTO ledger_sink DEFAULT VALUES;

CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only';
END $$;
DO $$
DECLARE
    kept text;
BEGIN
    FOREACH kept IN ARRAY ARRAY['ledger', 'ledger_leaves', 'ledger_keys', 'ledger_checkpoints', 'ledger_archives'] LOOP
        EXECUTE format('CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON %I '
                       'FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only()', kept);
    END LOOP;
    FOREACH kept IN ARRAY ARRAY['ledger', 'ledger_rest', 'ledger_leaves', 'ledger_keys', 'ledger_checkpoints',
                                'ledger_archives'] LOOP
        EXECUTE format('CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON %I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only()', kept);
    END LOOP;
END $$;

-- Makes the month's partition that holds an instant; runs as its owner, so the runtime role needs no right to create.
-- A month whose rows have begun in ledger_rest stays there.
CREATE FUNCTION ledger_month(instant timestamptz) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = onbe, pg_temp AS $$
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
