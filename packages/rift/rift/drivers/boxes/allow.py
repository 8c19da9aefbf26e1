"""The hosts a box may reach through its proxy unless its repository says otherwise."""

from __future__ import annotations

#: Package registries and forges of everyday work. `*.` stands for any depth of subdomains.
DEFAULT_ALLOW: tuple[str, ...] = (
    # Python
    "pypi.org",
    "*.pypi.org",
    "*.pythonhosted.org",
    "*.python.org",
    "astral.sh",
    "*.astral.sh",
    "conda.anaconda.org",
    "repo.anaconda.com",
    # JavaScript
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "repo.yarnpkg.com",
    "nodejs.org",
    "jsr.io",
    "npm.jsr.io",
    "deno.land",
    "*.deno.land",
    "bun.sh",
    # Rust
    "crates.io",
    "*.crates.io",
    "static.rust-lang.org",
    "sh.rustup.rs",
    # Go
    "proxy.golang.org",
    "sum.golang.org",
    "go.dev",
    "dl.google.com",
    "golang.org",
    # Ruby, PHP, Perl, R
    "rubygems.org",
    "*.rubygems.org",
    "packagist.org",
    "*.packagist.org",
    "getcomposer.org",
    "cpan.metacpan.org",
    "cran.r-project.org",
    "cloud.r-project.org",
    # Java, .NET
    "repo.maven.apache.org",
    "repo1.maven.org",
    "central.sonatype.com",
    "plugins.gradle.org",
    "services.gradle.org",
    "downloads.gradle.org",
    "api.nuget.org",
    "www.nuget.org",
    # Haskell, Elixir, Dart
    "hackage.haskell.org",
    "hex.pm",
    "*.hex.pm",
    "pub.dev",
    # Linux distributions
    "deb.debian.org",
    "*.debian.org",
    "archive.ubuntu.com",
    "*.archive.ubuntu.com",
    "security.ubuntu.com",
    "ports.ubuntu.com",
    "dl-cdn.alpinelinux.org",
    "cache.nixos.org",
    # Forges
    "github.com",
    "*.github.com",
    "*.githubusercontent.com",
    "ghcr.io",
    "gitlab.com",
    "*.gitlab.com",
    "codeberg.org",
    "bitbucket.org",
    "*.bitbucket.org",
    "git.sr.ht",
    "gitea.com",
)
