"""Building environments: `protocol` says what a builder does; `local` builds by Nix on this host, `fake` in memory."""
