"""The setting that names the identity provider: its issuer is taken as it is written."""

from __future__ import annotations

import pytest

from keel.settings import SettingsError, load
from onbe.settings import OnbeSettings

BASE = {
    "Onbe__Server__PublicUrl": "https://onbe.example",
    "Onbe__Subjects__Audiences": "onbe",
}


@pytest.mark.parametrize("issuer", ["https://id.example", "https://id.example/", "https://id.example/realms/main/"])
def test_an_issuer_is_the_one_that_tokens_name_slash_and_all(issuer: str) -> None:
    assert load(OnbeSettings, {**BASE, "Onbe__Subjects__Issuer": f" {issuer} "}).subject_issuer == issuer


@pytest.mark.parametrize("issuer", ["https://onbe.example", "https://onbe.example/", " https://onbe.example "])
def test_onbe_does_not_say_itself_who_a_person_is(issuer: str) -> None:
    with pytest.raises(SettingsError, match="Onbe:Subjects:Issuer should be the identity provider, and is Onbe itself"):
        load(OnbeSettings, {**BASE, "Onbe__Subjects__Issuer": issuer})


@pytest.mark.parametrize(
    "issuer", ["https://u:p@other.test/", "https://other.test/?a", "other.test", "ftp://other.test"]
)
def test_what_is_no_issuer_is_refused_and_not_repeated(issuer: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(OnbeSettings, {**BASE, "Onbe__Subjects__Issuer": issuer})
    assert "Onbe:Subjects:Issuer" in str(refused.value)
    assert issuer not in str(refused.value)
