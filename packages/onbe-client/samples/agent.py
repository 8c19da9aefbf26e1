"""An agent: works on one task for one person, hands a part of it to a sub-agent, and survives its own restart.

    ONBE_ISSUER=https://onbe.example.com ONBE_KEY=scribe.pem ONBE_GRANTS=grants.json \
        SUBJECT_TOKEN=… TOOL=https://tool.example.com python agent.py
"""

from __future__ import annotations

import asyncio
import os

import httpx2

from onbe_client import FileGrants, GrantUnknown, OnbeClient, Over, TaskSession

TOOL = os.environ["TOOL"]
JOB = "monthly-report"
"""The key under which the task's grant is kept: after a crash, the next start goes on where this one was."""


async def begin_or_resume(onbe: OnbeClient) -> TaskSession:
    try:
        return await onbe.resume(JOB)
    except GrantUnknown:
        return await onbe.exchange(os.environ["SUBJECT_TOKEN"], TOOL, "docs:read docs:write", key=JOB)


async def sub_agent(parents_token: str) -> None:
    """Another agent, with a key of its own: its task is a part of the first one's, and ends with it at the latest."""
    async with (
        OnbeClient(os.environ["ONBE_ISSUER"], "helper", os.environ["ONBE_HELPER_KEY"]) as onbe,
        await onbe.exchange(parents_token, TOOL, "docs:read") as part,
        httpx2.AsyncClient(base_url=TOOL, auth=part.auth()) as http,
    ):
        answer = await http.get("/documents/1")
        print("helper:", answer.raise_for_status().json())


async def main() -> None:
    async with OnbeClient(
        os.environ["ONBE_ISSUER"], "scribe", os.environ["ONBE_KEY"], store=FileGrants(os.environ["ONBE_GRANTS"])
    ) as onbe:
        try:
            async with (
                await begin_or_resume(onbe) as task,
                httpx2.AsyncClient(base_url=TOOL, auth=task.auth()) as http,
            ):
                for number in (1, 2, 3):  # each request carries a token that is good, however long the work takes
                    answer = await http.get(f"/documents/{number}")
                    print("scribe:", answer.raise_for_status().json())
                if "ONBE_HELPER_KEY" in os.environ:
                    await sub_agent(await task.access_token())
                await task.narrow("docs:read")  # nothing is written any more
        except Over as over:
            print("the task is over:", over)


if __name__ == "__main__":
    asyncio.run(main())
