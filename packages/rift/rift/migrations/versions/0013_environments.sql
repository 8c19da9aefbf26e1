-- What the boxes of one commit have: brought and built once for each head -----------------------------------------------
CREATE TABLE environments (
    id text PRIMARY KEY,
    repo text NOT NULL REFERENCES repos ON DELETE CASCADE,
    commit text NOT NULL,
    state text NOT NULL CHECK (state IN ('waiting', 'building', 'ready', 'failed', 'cancelled')),
    epoch bigint NOT NULL DEFAULT 0,    -- counts those who built it: what an older one says is not written
    until timestamptz,                  -- who builds it says again and again that they still do
    step text NOT NULL DEFAULT '',
    tries int NOT NULL DEFAULT 0,       -- how often it was interrupted, or what it needs could not be brought
    built jsonb,                        -- what it came to: packages' paths, variables, setup; NULL: the base environment
    lacks text NOT NULL DEFAULT '',
    failure text,
    stays boolean NOT NULL DEFAULT false,   -- whether it fails again, as it is: not tried before somebody asks for it
    wanted_at timestamptz NOT NULL,
    began_at timestamptz,
    ended_at timestamptz,
    UNIQUE (repo, commit)
);
CREATE INDEX environments_open ON environments (repo, wanted_at) WHERE state IN ('waiting', 'building');

-- What a build said, piece by piece ------------------------------------------------------------------------------------
CREATE TABLE environment_logs (
    environment text NOT NULL REFERENCES environments ON DELETE CASCADE,
    epoch bigint NOT NULL,
    first bigint NOT NULL,      -- where the piece begins, in bytes
    data bytea NOT NULL,
    PRIMARY KEY (environment, epoch, first)
);

-- Which environments boxes still use -----------------------------------------------------------------------------------
CREATE INDEX boxes_of_commit ON boxes (repo, commit) WHERE state <> 'destroyed';

-- `needed`: to be built, as a watched ref has the commit as head, or a box of it starts, or runs and is to start anew. No
-- head of a repository counts that may give no boxes (`Repo.open`). `used`: to be kept.
CREATE VIEW environment_uses AS
SELECT e.id, (head.there AND r.uncovered_at IS NULL AND coalesce(a.enabled, true)
              AND a.suspended_at IS NULL AND a.removed_at IS NULL) OR EXISTS (
           SELECT FROM boxes b
           WHERE b.repo = e.repo AND b.commit = e.commit AND b.state <> 'destroyed'
             AND b.state IN ('starting', 'running', 'parked')
       ) AS needed,
       head.there OR EXISTS (
           SELECT FROM boxes b WHERE b.repo = e.repo AND b.commit = e.commit AND b.state <> 'destroyed'
       ) AS used
FROM environments e JOIN repos r ON r.id = e.repo LEFT JOIN github_accounts a ON a.installation = r.account,
LATERAL (
    SELECT EXISTS (
        SELECT FROM watches w JOIN heads h ON h.repo = w.repo AND h.ref = w.ref
        WHERE w.repo = e.repo AND h.commit = e.commit
    ) AS there
) head;

-- Watched refs: when somebody last asked, whether the failure comes again, since when there were none but failures -----
ALTER TABLE watches ADD COLUMN asked_at timestamptz, ADD COLUMN failure_stays boolean NOT NULL DEFAULT false,
    ADD COLUMN failing_since timestamptz;

GRANT SELECT, INSERT, UPDATE, DELETE ON environments, environment_logs TO rift_runtime;
GRANT SELECT ON environment_uses TO rift_runtime;
