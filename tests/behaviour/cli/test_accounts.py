"""Accounts and teams by the command line, beside a Rift that serves: what each command says is so at the next call."""

from __future__ import annotations

from tests.behaviour.cli.systems import Running, Told, rift, system

ADA, GRACE = "ada@example.com", "grace@example.com"


def typed(one: Running, *words: str) -> Told:
    """A command on the system's data folder."""
    return rift(*words, "--data", one.data)


async def test_people_and_teams_are_led_by_the_command_line() -> None:
    with system() as one:
        typed(one, "user", "add", ADA)
        token = typed(one, "token", "new", "--user", ADA, "--client", "Claude").out.split()[-1]
        assert (await one.raw("rift_org_new", token, name="Robots & Co")).status == 200

        assert typed(one, "user", "disable", ADA).out.startswith(f"{ADA} is put out")
        assert (await one.raw("rift_whoami", token)).status == 401
        assert typed(one, "user", "link", ADA).status == 1
        assert f"{ADA}  (disabled)" in typed(one, "user", "ls").out
        assert typed(one, "user", "enable", ADA).out == f"{ADA} may come in.\n"
        assert (await one.raw("rift_whoami", token)).status == 200

        assert typed(one, "user", "admin", ADA).out == f"{ADA} is a platform admin.\n"
        assert not (await one.raw("rift_waitlist", token)).result.get("isError")
        assert typed(one, "user", "admin", ADA, "--revoke").out == f"{ADA} is no platform admin any more.\n"
        assert (await one.raw("rift_waitlist", token)).result["isError"]
        last = typed(one, "user", "admin", "admin@localhost.localdomain", "--revoke")
        assert (last.status, last.out) == (1, "")
        assert "rift user admin" in last.err

        assert typed(one, "org", "ls").out.startswith("Robots & Co  1 member")
        assert [team["name"] for team in typed(one, "org", "ls", "--json").json] == ["Robots & Co"]
        invited = typed(one, "org", "invite", "Robots & Co", GRACE, "--admin").out
        assert invited.startswith(f"{GRACE} may join Robots & Co as admin until ")
        assert "Mailbox" in invited
        assert typed(one, "user", "invite", "lin@example.com").out.startswith(
            "lin@example.com may make an account until "
        )
        wrong = typed(one, "org", "invite", "Nobody's", GRACE)
        assert (wrong.status, "rift org ls" in wrong.err) == (1, True)

        added = typed(one, "repo", "add", "robots/arm", str(one.data / "sample"), "--org", "robots & co")
        assert added.status == 0, added
        text = (await one.raw("rift_repos", token, org="Robots & Co")).result["content"][0]["text"]
        assert "robots/arm" in text
