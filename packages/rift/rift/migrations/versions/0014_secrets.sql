-- Secrets of a repository: names to be seen, values sealed by the vault -------------------------------------------------
CREATE TABLE secrets (
    repo text NOT NULL REFERENCES repos ON DELETE CASCADE,
    name text NOT NULL,
    sealed bytea NOT NULL,
    bytes integer NOT NULL,     -- of the value
    set_by text REFERENCES users,   -- NULL: the operator
    set_at timestamptz NOT NULL,
    PRIMARY KEY (repo, name)
);
ALTER TABLE repos ADD COLUMN secrets_version bigint NOT NULL DEFAULT 0;  -- counts changes: boxes' agents know by it

GRANT SELECT, INSERT, UPDATE, DELETE ON secrets TO rift_runtime;
