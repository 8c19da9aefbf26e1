-- People who may be put out, and organizations that have names -------------------------------------------------------
ALTER TABLE users ADD COLUMN disabled_at timestamptz;
ALTER TABLE members ADD COLUMN joined_at timestamptz NOT NULL DEFAULT now();
CREATE UNIQUE INDEX orgs_team ON orgs (lower(name)) WHERE personal_of IS NULL;

-- Invitations to a team or, without one, to make an account; and who would like to be invited ------------------------
CREATE TABLE invitations (
    id text PRIMARY KEY,
    org text REFERENCES orgs,
    email text NOT NULL,
    role text NOT NULL CHECK (role IN ('member', 'admin')),
    invited_by text REFERENCES users,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    outcome text CHECK (outcome IN ('accepted', 'declined', 'withdrawn')),
    ended_at timestamptz,
    CHECK ((outcome IS NULL) = (ended_at IS NULL))
);
CREATE UNIQUE INDEX invitations_open ON invitations (coalesce(org, ''), lower(email)) WHERE ended_at IS NULL;
CREATE INDEX invitations_email ON invitations (lower(email)) WHERE ended_at IS NULL;

CREATE TABLE waitlist (
    id text PRIMARY KEY,
    email text NOT NULL,
    name text NOT NULL,
    organization text NOT NULL,
    note text NOT NULL,
    joined_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX waitlist_email ON waitlist (lower(email));
CREATE INDEX waitlist_joined ON waitlist (joined_at, id);

-- Letters, by what they say and not by their text, which may hold a link; and the links, by their digest -------------
CREATE TABLE letters (
    id text PRIMARY KEY,
    kind text NOT NULL,
    email text NOT NULL,
    facts jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    until timestamptz NOT NULL,
    next_at timestamptz,
    tries integer NOT NULL DEFAULT 0,
    failure text,
    sent_at timestamptz
);
CREATE INDEX letters_waiting ON letters (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX letters_created ON letters (created_at, id);
CREATE INDEX letters_email ON letters (lower(email), created_at);

CREATE TABLE links (
    sha256 bytea PRIMARY KEY,
    email text NOT NULL,
    invitation text REFERENCES invitations,
    next text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz
);

-- How people sign in, and where they are signed in ------------------------------------------------------------------
CREATE TABLE sessions (
    id text PRIMARY KEY,
    user_id text NOT NULL REFERENCES users,
    sha256 bytea NOT NULL UNIQUE,
    method text NOT NULL CHECK (method IN ('link', 'passkey', 'sso')),
    agent text NOT NULL,
    created_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    ended_at timestamptz
);
CREATE INDEX sessions_user ON sessions (user_id) WHERE ended_at IS NULL;

CREATE TABLE passkeys (
    id text PRIMARY KEY,
    user_id text NOT NULL REFERENCES users,
    credential bytea NOT NULL UNIQUE,
    public_key bytea NOT NULL,
    sign_count bigint NOT NULL,
    transports text[] NOT NULL DEFAULT '{}',
    name text NOT NULL,
    created_at timestamptz NOT NULL,
    used_at timestamptz
);
CREATE INDEX passkeys_user ON passkeys (user_id);

-- What is half done in a browser: a challenge to a passkey, a way to another sign-in and back. The browser has its secret.
CREATE TABLE ceremonies (
    sha256 bytea PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('passkey_new', 'passkey', 'sso')),
    user_id text REFERENCES users,
    facts jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX ceremonies_expire ON ceremonies (expires_at);

CREATE TABLE identities (
    issuer text NOT NULL,
    subject text NOT NULL,
    user_id text NOT NULL REFERENCES users,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX identities_user ON identities (user_id);

-- MCP clients that sign in by address alone -------------------------------------------------------------------------
CREATE TABLE clients (
    id text PRIMARY KEY,
    source text NOT NULL CHECK (source IN ('registered', 'document')),
    name text NOT NULL,
    redirect_uris text[] NOT NULL,
    facts jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    used_at timestamptz
);

ALTER TABLE tokens ALTER COLUMN sha256 DROP NOT NULL;
ALTER TABLE tokens ADD COLUMN client_id text REFERENCES clients;
CREATE INDEX tokens_user ON tokens (user_id);

-- A code is good once; what it was exchanged for is ended when it comes again.
CREATE TABLE codes (
    sha256 bytea PRIMARY KEY,
    client text NOT NULL REFERENCES clients,
    user_id text NOT NULL REFERENCES users,
    redirect_uri text NOT NULL,
    challenge text NOT NULL,
    resource text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz,
    token text REFERENCES tokens
);

-- Of a token whose client signed in by itself: the secrets that are good now. Both are known by their digest.
CREATE TABLE access_tokens (
    sha256 bytea PRIMARY KEY,
    token text NOT NULL REFERENCES tokens,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX access_tokens_token ON access_tokens (token);
CREATE INDEX access_tokens_expire ON access_tokens (expires_at);

-- `salt` and the secret that is presented make its successors, so that one used twice at once gets the same ones.
CREATE TABLE refresh_tokens (
    sha256 bytea PRIMARY KEY,
    token text NOT NULL REFERENCES tokens,
    resource text NOT NULL,
    salt bytea NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz
);
CREATE INDEX refresh_tokens_token ON refresh_tokens (token);

-- Feedback: a draft until it is submitted ---------------------------------------------------------------------------
CREATE TABLE feedback (
    id text PRIMARY KEY,
    user_id text NOT NULL REFERENCES users,
    client text NOT NULL,
    category text NOT NULL CHECK (category IN ('bug', 'improvement')),
    text text NOT NULL,
    context text NOT NULL,
    created_at timestamptz NOT NULL,
    edited_at timestamptz,
    submitted_at timestamptz,
    handled_at timestamptz
);
CREATE INDEX feedback_draft ON feedback (user_id, created_at) WHERE submitted_at IS NULL;
CREATE INDEX feedback_inbox ON feedback (submitted_at) WHERE submitted_at IS NOT NULL;

-- Who reads a record beside the one who acted: an organization's admins what was done in a box of its repositories, and
-- a task's owner what was done to it by others, as by upkeep. A reader is an organization's id or a person's. The
-- instant stands here too, so that a page is read in the ledger's own order and finds each record in its month.
CREATE TABLE ledger_readers (
    reader text NOT NULL,
    at timestamptz NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (reader, at, seq)
);
CREATE FUNCTION ledger_has_readers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_readers (reader, at, seq)
    SELECT r.org, NEW.at, NEW.seq FROM boxes b JOIN repos r ON r.id = b.repo WHERE b.id = NEW.box
    UNION ALL
    SELECT t.owner, NEW.at, NEW.seq FROM tasks t WHERE t.id = NEW.task AND t.owner IS DISTINCT FROM NEW.actor
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_has_readers AFTER INSERT ON ledger FOR EACH ROW
    WHEN (NEW.box IS NOT NULL OR NEW.task IS NOT NULL) EXECUTE FUNCTION ledger_has_readers();
INSERT INTO ledger_readers (reader, at, seq)
    SELECT r.org, l.at, l.seq FROM ledger l JOIN boxes b ON b.id = l.box JOIN repos r ON r.id = b.repo
    UNION ALL
    SELECT t.owner, l.at, l.seq FROM ledger l JOIN tasks t ON t.id = l.task WHERE t.owner IS DISTINCT FROM l.actor;
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger_readers
    FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON ledger_readers
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();

-- A box is asked for by its name, too.
CREATE INDEX boxes_name ON boxes (name);

-- What the system and its operator did, which is of no person: a platform admin reads it.
CREATE INDEX ledger_nobodys ON ledger (at, seq) WHERE actor IS NULL AND task IS NULL AND box IS NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON
    invitations, waitlist, letters, links, sessions, passkeys, ceremonies, identities, clients, codes, access_tokens,
    refresh_tokens, feedback TO rift_runtime;
GRANT SELECT, INSERT ON ledger_readers TO rift_runtime;
