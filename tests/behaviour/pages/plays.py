"""How each command of the pages is played: where, with what in the place of its examples; or why it is not.

A command that is not named here is typed as it stands into a shell on a running Rift. So a new one is run by itself,
and fails until the page is right, or it is said here how it is played.
"""

from __future__ import annotations

from collections.abc import Mapping

HOME = {
    ("docs/mail.md", "Settings"): "mail",
    ("docs/inside-a-box.md", "Tools"): "box",
    ("docs/inside-a-box.md", "By the proxy"): "box",
    ("README.md", "For a team"): "team",
    ("docs/operations.md", "For a team"): "team",
    ("docs/operations.md", "TLS"): "team",
    ("docs/operations.md", "Backup"): "backup",
    ("docs/operations.md", "A new major version of Postgres"): "backup",
    ("docs/operations.md", "Backup of Onbe"): "onbe-backup",
    ("docs/onbe-admin.md", "The key"): "authority",
    ("docs/onbe-admin.md", "Agents as files"): "authority",
    ("docs/onbe-admin.md", "The API"): "authority",
    ("docs/onbe-identity.md", "The development issuer"): "onbe",
    ("docs/onbe-ledger.md", "Reading it"): "onbe",
    ("docs/onbe-ledger.md", "Checking it"): "onbe",
    ("docs/onbe-ledger.md", "Archiving"): "onbe",
}
"""The place of a page's part, of those in `places.py`, where it is not the running Rift."""

ON_THE_HOST = ("rift repo network",)
"""What a page on boxes shows of the host."""

ELSEWHERE = {
    ("docs/onbe.md", "The first ten minutes"): "test_the_first_ten_minutes_are_as_the_page_says",
}
"""A part of which another test types every block."""

NOT_RUN: Mapping[tuple[str, str], str] = {
    ("README.md", "sudo apt update && sudo apt install git python3-venv curl"): "changes the machine; CI's fresh one",
    ("README.md", "git clone URL_OF_THIS_REPOSITORY rift"): "the repository's own address; CI clones it",
    ("README.md", "cd rift"): "goes with the clone",
    ("README.md", "script/up"): "sets up the checkout that runs this test; what it prints is compared with `rift up`",
    ("README.md", "script/test"): "is what runs this test",
    ("docs/operations.md", "git pull"): "would change the checkout that runs this test",
    ("docs/operations.md", "script/up"): "sets up the checkout that runs this test",
    ("docs/nix-guide.md", "nix eval --json .#fixed-labs.rift.x86_64-linux.env"): "needs Nix, and its package index",
    (
        "docs/nix-guide.md",
        (
            'nix build --no-link $(nix eval --raw --apply \'e: builtins.concatStringsSep " " '
            '(map (p: p.drvPath + "^*") e.packages)\' .#fixed-labs.rift.x86_64-linux)'
        ),
    ): "needs Nix, and its package index",
    ("docs/onbe-client.md", "pip install ./packages/onbe-client"): "fetches what it needs; test_package has it alone",
    ("docs/onbe-client.md", "pip install './packages/onbe-client[mcp]'"): "fetches what it needs from an index",
    (
        "docs/inside-a-box.md",
        (
            "uv venv -q /tmp/v && uv pip install -q -p /tmp/v tabulate && "
            "/tmp/v/bin/python -c 'import tabulate; print(tabulate.__version__)'"
        ),
    ): "fetches from a package index",
    (
        "docs/onbe-ledger.md",
        "onbe audit verify --kept 12:ab34… --archive ledger-2026-10.jsonl.gz",
    ): "needs a month that is over: tests/behaviour/onbe/audit",
    (
        "docs/onbe-ledger.md",
        "onbe audit archive --month 2026-10 --to /backup/onbe",
    ): "needs a month that is over: tests/behaviour/onbe/audit",
    (
        "docs/onbe-ledger.md",
        "onbe audit archive --month 2026-10 --to /backup/onbe --drop",
    ): "needs a month that is over: tests/behaviour/onbe/audit",
}
"""What is not run, and why."""

BEFORE: Mapping[tuple[str, str, int], str] = {
    ("README.md", 'call rift_task_attach \'{"task": "task_z8rva7mn"}\'', 1): (
        "TOKEN=$(rift token new --user admin@localhost.localdomain --client Second | tail -1 | grep -o 'rift_.*')"
    ),
    ("docs/secrets.md", "rift secret set acme/app API_KEY < key.txt", 1): "printf 'a-key-to-try\\n' > key.txt",
    ("docs/onbe-admin.md", "onbe agent apply mailer.agent.toml", 2): (
        'sed -i \'s|^allowed_scopes = \\[|&"files.write", |; s|^#* *max_token_ttl.*|max_token_ttl = "PT2M"|\' '
        "mailer.agent.toml"
    ),
}
"""What somebody does before a command (the nth of its words on its page), which the page tells in words."""

STATUS: Mapping[tuple[str, str], int] = {
    ("docs/settings.md", "Rift__Server__Prt=1 Rift__Tasks__QuietLease=1x rift migrate"): 1,
}
"""The exit status that is right, where it is not 0."""

SAID: Mapping[tuple[str, str], str] = {
    ("docs/audit.md", "rift audit ls --since 2h --outcome refused"): r"rift_task_attach +task_in_use",
    ("docs/audit.md", "rift audit verify"): r"Intact: [\d,]+ records? in [\d,]+ checkpoints?, [\d,]+ texts? checked",
}
"""A pattern in the place of what a page shows, which is of another day, another person or another amount."""
