"""docs/onbe-ends.md says what the code says: every reason, every switch, every member of an answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from onbe import names
from onbe.settings import OnbeSettings
from onbe.tasks.model import EndReason
from onbe.wire.oauth.introspect import TOLD

PAGE = (Path(__file__).parents[4] / "docs/onbe-ends.md").read_text("utf-8")
SAID = set(re.findall(r"`([^`\n]+)`", PAGE))


def test_the_page_names_every_reason_for_which_a_task_is_revoked_and_no_other() -> None:
    assert set(get_args(EndReason)) <= SAID
    ends_so = {word for word in SAID if re.fullmatch(r"[a-z_]+_(killed|blocked|revoked)|revoked_by_\w+", word)}
    assert ends_so - {"task_revoked"} == set(get_args(EndReason))


def test_the_page_names_every_claim_that_is_told_of_a_good_token() -> None:
    assert set(TOLD) | {"active", "token_type", "revoked_at", "revocation_reason"} <= SAID


def test_the_page_names_the_endpoints_and_the_setting_as_they_are() -> None:
    assert f"POST {names.INTROSPECT_PATH}" in SAID
    assert f"POST {names.REVOKE_PATH}" in SAID
    assert "Onbe:Tasks:KeepEnded" in SAID
    assert OnbeSettings().tasks.keep_ended.days == 30
    assert "30 days" in PAGE
