"""One file a tool: parse, one action, render. `TOOLS` holds them in the contract's order."""

from __future__ import annotations

from rift.wire.mcp.tool import Tool
from rift.wire.mcp.tools import (
    account_invite,
    audit,
    bash,
    docs,
    feedback,
    github_connect,
    github_enable,
    github_login,
    org_accept,
    org_invite,
    org_new,
    output,
    read,
    repos,
    stop,
    task_attach,
    task_close,
    task_ls,
    task_new,
    task_release,
    unwatch,
    vm_destroy,
    vm_ls,
    vm_new,
    vm_suspend,
    waitlist,
    watch,
    whoami,
    write,
)

TOOLS: tuple[Tool, ...] = tuple(
    module.TOOL
    for module in (
        *(task_new, task_ls, task_attach, task_release, task_close),
        *(vm_new, vm_ls, vm_destroy, vm_suspend),
        *(bash, read, write, output, stop),
        *(whoami, org_new, org_invite, org_accept, account_invite, waitlist),
        *(github_connect, github_enable, github_login),
        *(repos, watch, unwatch),
        *(feedback, docs, audit),
    )
)
"""Every tool there is."""
