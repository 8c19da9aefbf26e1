"""Why a task gives no more tokens."""

from __future__ import annotations

from onbe.catalogue import reason

task_revoked = reason("task_revoked", "The task was revoked.")
parent_revoked = reason("parent_revoked", "The task that this one was delegated from was revoked.")
task_expired = reason("task_expired", "The task has expired.")
task_ending = reason("task_ending", "The task ends within five seconds; stop, and do not try again.")
task_unknown = reason("task_unknown", "There is no task {task}.")
