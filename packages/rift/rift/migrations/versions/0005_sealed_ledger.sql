-- Every column of a row is sealed: whole microseconds, as a fraction has more than one spelling. Who may still bring
-- rows is seen by their locks, so a row no longer needs the number of its transaction.
ALTER TABLE ledger ALTER COLUMN duration_ms TYPE bigint USING round(duration_ms * 1000)::bigint;
ALTER TABLE ledger RENAME COLUMN duration_ms TO duration_us;
ALTER TABLE ledger DROP COLUMN txid;

-- Pages of records, the newest first.
DROP INDEX ledger_actor;
DROP INDEX ledger_task;
DROP INDEX ledger_box;
CREATE INDEX ledger_at ON ledger (at, seq);
CREATE INDEX ledger_actor ON ledger (actor, at, seq);
CREATE INDEX ledger_action ON ledger (action, at, seq);
CREATE INDEX ledger_task ON ledger (task, at, seq) WHERE task IS NOT NULL;
CREATE INDEX ledger_box ON ledger (box, at, seq) WHERE box IS NOT NULL;
CREATE INDEX ledger_not_ok ON ledger (outcome, at, seq) WHERE outcome <> 'ok';
CREATE INDEX ledger_texts_at ON ledger_texts (at);

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

CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger_leaves
    FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON ledger_leaves
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger_keys
    FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON ledger_keys
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger_checkpoints
    FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON ledger_checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();

GRANT SELECT, INSERT ON ledger_leaves, ledger_keys, ledger_checkpoints TO rift_runtime;
GRANT SELECT ON ledger_seq TO rift_runtime;
