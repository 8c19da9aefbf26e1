"""A GitHub for tests: real HTTP, real git, real LFS, and webhooks, at a port of loopback.

    def test_something(github: StandIn) -> None:          # the fixture stands in tests/github/fixtures.py
        ada = github.make_user("ada")
        acme = github.make_org("acme", admins=[ada])
        app = github.make_app(acme, webhook_url=f"{rift}/hooks/github", callback_urls=(f"{rift}/…",))
        repo = github.make_repo("acme/app", {"README.md": "# app\\n"})
        installation = github.install(app, acme, by=ada)   # tells the webhook `installation`, `created`
        head = github.push_from_outside(repo, "main", {"a.txt": "a\\n"}, by=ada)

`github.settings(app)` are a Rift's settings as environment variables; `Rift:GitHub:Url` is `github.url`, so that it is
a GitHub Enterprise whose API is at `/api/v3`. A test with a fake clock makes its own: `StandIn(clock=clock.now)`.

What a person does in a browser: `with github.browser(ada) as browser: browser.install(address, acme.id)`, `.authorize`,
`.device(user_code)`, `.make_app(address, manifest)`; or at once `github.install(…)`, `github.answer_device_login(code,
ada)`, `github.user_token(app, ada)`. `github.device_every = 0` lets a device login be asked about without a pause. An
App that was made from a manifest has its device flow off, as on GitHub, where its owner ticks it on its settings page:
here `app.device_flow = True`.

What goes wrong: `github.suspend(installation)`, `.uninstall`, `.cover(app, acme, [repo])`, `.rename(repo, "new")`,
`.transfer`, `.delete`, `.archive`, `.protect(repo, "main")`, `.revoke(app, ada)`, `.limit_rate(installation)`,
`.limit_secondary(retry_after=30)`, `.break_down("/pulls", 502, times=2)`, `.calm()`, `.advance(timedelta(hours=1))`.

Webhooks: `github.hooks.hold()` and `.release(reversed)`, `.drop()` and `.keep()`, `.again(delivery)`, `.settle()`,
`.last("push")`; each delivery keeps its `body`, `headers()`, the `status` it was answered with.

`github.called(pattern)` lists calls of the API; `github.head(repo, branch)`, `.read(repo, path, ref)`, `repo.issues`
show what came of a push, a pull request, a comment.

How true it is: test_answers.py holds every answer to GitHub's published OpenAPI document, test_webhooks.py every body
to `@octokit/webhooks-examples`; where they cannot be fetched, these tests are listed as not run.
"""
