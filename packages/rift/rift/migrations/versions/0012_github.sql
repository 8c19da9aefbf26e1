-- The App by which Rift is known at GitHub: made there from a running Rift, or set by settings. One row at most -------
CREATE TABLE github_app (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    app_id bigint NOT NULL,
    slug text NOT NULL,
    html_url text NOT NULL,
    client_id text NOT NULL,
    sealed bytea NOT NULL       -- client secret, private key and webhook secret, sealed by the vault
);

-- Where the App is installed: one account of GitHub's, of one organization of ours ------------------------------------
CREATE TABLE github_accounts (
    installation bigint PRIMARY KEY,
    org text NOT NULL REFERENCES orgs,
    account_id bigint NOT NULL,
    login text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('User', 'Organization')),
    enabled boolean NOT NULL DEFAULT false,
    suspended_at timestamptz,
    removed_at timestamptz,
    connected_at timestamptz NOT NULL,
    covered_at timestamptz,     -- when its repositories were last listed to the end
    cover_epoch bigint NOT NULL DEFAULT 0,
    cover_until timestamptz,
    cover_page integer NOT NULL DEFAULT 1,     -- the page of the list that comes next
    cover_total integer,        -- how many there were when the list began; NULL: they were more or fewer since
    cover_after timestamptz,    -- not before: GitHub asked for patience
    cover_next timestamptz,     -- when its turn is; NULL: at once
    cover_asked boolean NOT NULL DEFAULT false, -- while it was listed, somebody asked for a list again
    cover_failures integer NOT NULL DEFAULT 0, -- since it was last listed to the end
    untaken text[] NOT NULL DEFAULT '{}',      -- what is covered there and cannot be had here, with the reason
    failure text                -- why it could not be listed since
);
CREATE INDEX github_accounts_org ON github_accounts (org);
CREATE UNIQUE INDEX github_accounts_account ON github_accounts (account_id) WHERE removed_at IS NULL;

-- Whose GitHub account a person has connected: pushes and pull requests are made with it -------------------------------
CREATE TABLE github_users (
    user_id text PRIMARY KEY REFERENCES users,
    github_id bigint NOT NULL,
    login text NOT NULL,
    sealed bytea NOT NULL,      -- access and refresh token, sealed by the vault
    expires_at timestamptz,
    refresh_expires_at timestamptz,
    refresh_epoch bigint NOT NULL DEFAULT 0,
    refresh_until timestamptz,
    failure text,
    connected_at timestamptz NOT NULL
);

-- A login that has begun (device flow), and a connection that waits for the person to come back from GitHub ------------
CREATE TABLE github_logins (
    user_id text PRIMARY KEY REFERENCES users,
    sealed bytea NOT NULL,      -- the device code, sealed by the vault
    user_code text NOT NULL,
    url text NOT NULL,
    every_seconds integer NOT NULL,
    ask_after timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE TABLE github_connects (
    sha256 bytea PRIMARY KEY,   -- of the state that GitHub hands back
    user_id text NOT NULL REFERENCES users,
    org text REFERENCES orgs,   -- NULL: the App itself is being made
    expires_at timestamptz NOT NULL,
    used_at timestamptz
);

-- A list of an account's repositories on its way: it counts once its last page is there ---------------------------------
CREATE TABLE github_listed (
    installation bigint NOT NULL REFERENCES github_accounts ON DELETE CASCADE,
    github_id bigint NOT NULL,
    owner text NOT NULL,
    name text NOT NULL,
    default_branch text,        -- NULL: of no name that can be shown
    archived boolean NOT NULL,
    PRIMARY KEY (installation, github_id)
);

-- Webhooks that came: each is acted on once ---------------------------------------------------------------------------
CREATE TABLE github_deliveries (
    id text PRIMARY KEY,
    received_at timestamptz NOT NULL
);
CREATE INDEX github_deliveries_received ON github_deliveries (received_at);

-- Repositories: those of an account of GitHub's are there as soon as the App covers them -------------------------------
ALTER TABLE repos ADD COLUMN forge text NOT NULL DEFAULT 'local' CHECK (forge IN ('local', 'github'));
ALTER TABLE repos ADD COLUMN account bigint REFERENCES github_accounts;
ALTER TABLE repos ADD COLUMN github_id bigint;
ALTER TABLE repos ADD COLUMN default_branch text;
ALTER TABLE repos ADD COLUMN formerly text[] NOT NULL DEFAULT '{}'; -- its names of before: boxes that live call it so
ALTER TABLE repos ADD COLUMN archived boolean NOT NULL DEFAULT false;
ALTER TABLE repos ADD COLUMN uncovered_at timestamptz;  -- the App covers it no more, or it is not there any more
ALTER TABLE repos ADD COLUMN sync_after timestamptz;    -- not read by itself before: it could not be, or GitHub wants patience
ALTER TABLE repos ADD COLUMN sync_failures integer NOT NULL DEFAULT 0;
ALTER TABLE repos ADD COLUMN push_default boolean NOT NULL DEFAULT false;
ALTER TABLE repos ADD COLUMN push_watched boolean NOT NULL DEFAULT false;
ALTER TABLE repos ADD CHECK ((forge = 'github') = (account IS NOT NULL) AND (forge = 'github') = (github_id IS NOT NULL));
ALTER TABLE repos DROP CONSTRAINT repos_org_owner_name_key;
CREATE UNIQUE INDEX repos_name ON repos (org, owner, name) WHERE uncovered_at IS NULL;
CREATE UNIQUE INDEX repos_github ON repos (org, github_id) WHERE github_id IS NOT NULL;
CREATE INDEX repos_short_name ON repos (lower(name));
CREATE INDEX repos_account ON repos (account) WHERE account IS NOT NULL;

-- A box's checkout keeps its folder when its repository is renamed --------------------------------------------------------
ALTER TABLE boxes ADD COLUMN checkout text;     -- the folder's name, from the box's first start on
UPDATE boxes SET checkout = r.name FROM repos r WHERE r.id = boxes.repo;

-- The server may do what it does with every other table; what is sealed, only the vault opens ---------------------------
GRANT SELECT, INSERT, UPDATE, DELETE ON
    github_app, github_accounts, github_users, github_logins, github_connects, github_listed, github_deliveries
TO rift_runtime;
