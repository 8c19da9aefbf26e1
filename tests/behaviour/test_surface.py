"""The tools there are, beside the page that is the whole surface."""

from __future__ import annotations

import re

from tests.behaviour.manifest import TOOLS_PAGE

from rift.wire.mcp.tools import TOOLS
from rift.wire.web.site import PAGES

BY_NAME = {tool.name: tool for tool in TOOLS}
ON_THE_PAGE = re.compile(r"^• (rift_\w+)", re.MULTILINE)


def test_the_tools_are_those_of_the_page_in_its_order_and_none_is_missing() -> None:
    assert ON_THE_PAGE.findall(TOOLS_PAGE.read_text()) == [tool.name for tool in TOOLS]


def test_a_tools_arguments_are_those_of_the_page_in_its_order() -> None:
    for line in TOOLS_PAGE.read_text().splitlines():
        found = re.match(r"• (rift_\w+)((?: [\w?\[\]]+,?)*) —", line)
        if found and found[1] in BY_NAME:
            schema = BY_NAME[found[1]].input_schema
            told = [f"{name}{'' if name in schema.get('required', ()) else '?'}" for name in schema["properties"]]
            wanted = re.sub(r"\[(\w+)\]", r"\1?", found[2])  # two spellings of what may be left out
            assert told == re.findall(r"[\w?]+", wanted), found[1]


def test_what_people_decide_on_a_page_has_no_tool() -> None:
    decided = {page.path for page in PAGES if page.post is not None and not page.open}
    for path, words in (
        ("/app/connections/{token}/revoke", "revoke|connection|token"),
        ("/app/connections/github/disconnect", "disconnect"),
        ("/app/organizations/{org}/github/disable", "github_disable"),
        ("/app/organizations/decline", "decline"),
        ("/app/secrets/{repo}", "secret"),
        ("/app/organizations/{org}/members/{user}/remove", "member|remove"),
        ("/app/people/{person}/disable", r"disable|(?<!github_)enable"),
        ("/app/feedback", "submit"),
    ):
        assert any(one.startswith(path) for one in decided), path
        assert [name for name in BY_NAME if re.search(words, name)] == []


def test_the_advice_to_agents_stands_in_the_descriptions() -> None:
    assert "A running VM costs money, so park each one you are not using" in BY_NAME["rift_vm_suspend"].description
    assert "Destroy a VM made for a short job" in BY_NAME["rift_vm_destroy"].description
    assert "do not send it again" in BY_NAME["rift_bash"].description
    assert "until every command ended and its output is read" in BY_NAME["rift_output"].description
