"""Settings: one name each, spelled `Product:Section:Name`, read once at start, with every error told at once.

    class TaskSettings(Section):
        quiet_lease: Duration = Field(default=timedelta(minutes=30), description="…")

    class RiftSettings(Settings):
        product: ClassVar[str] = "Rift"
        tasks: TaskSettings = TaskSettings()

    settings = load(RiftSettings, os.environ, data / "rift.toml")    # settings.tasks.quiet_lease

The environment spells it `Rift__Tasks__QuietLease`, in any case and with any underscores inside a name
(`RIFT__TASKS__QUIET_LEASE` is the same); a file, in TOML, `[tasks] quiet_lease = "PT30M"`. The environment wins.
An error names the setting and what it should be, never the value, which may be a secret.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.alias_generators import to_pascal

from keel import durations, sizes

__all__ = ["Bytes", "Duration", "Row", "Section", "Settings", "SettingsError", "Words", "load", "render", "table"]


class SettingsError(Exception):
    """The settings cannot be used. `errors`: one sentence for each wrong one, naming it; the text is all of them."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(self.errors))


class Section(BaseModel):
    """Some settings of one subject: frozen, typed; each field with a default and a description."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Settings(Section):
    """All settings of one product: its fields are sections, or settings without one (`Product:Name`)."""

    product: ClassVar[str]

    def contradictions(self) -> Iterator[str]:
        """Sentences for settings that are fine alone and not together, each naming both."""
        yield from ()


AnySettings = TypeVar("AnySettings", bound=Settings)

# How values are spelled


def _duration(value: object) -> object:
    if not isinstance(value, str):
        if isinstance(value, timedelta):
            return value
        raise ValueError("a duration as in ISO 8601, for example PT30M or P1D")
    duration = durations.read(value.strip().upper())
    if duration is None:
        raise ValueError("a duration as in ISO 8601, for example PT30M or P1D")
    return duration


def _bytes(value: object) -> object:
    count = None if isinstance(value, bool) else sizes.read(str(value))
    if count is None:
        raise ValueError("a number of bytes, for example 1048576 or 1MiB")
    return count


def _words(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration)]
"""A length of time, spelled as ISO 8601 does: `PT30M`."""
Bytes = Annotated[int, BeforeValidator(_bytes)]
"""A size: a number of bytes, or with a unit: `256MiB`."""
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
"""Several texts: separated by commas, or a list in the file."""


# The names


@dataclass(frozen=True)
class Row:
    """One setting, for a person: its name, its default as it is spelled ("" for none), what it is for."""

    name: str
    default: str
    what: str


def table(kind: type[Settings]) -> list[Row]:
    """Every setting of a product, in the order declared."""
    return [
        Row(":".join((kind.product, *map(to_pascal, path))), render(info.default), info.description or "")
        for path, info in _fields(kind)
    ]


def render(value: object) -> str:
    """A value as a setting spells it."""
    if value is None:
        return ""
    if isinstance(value, timedelta):
        return durations.told(value)
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _fields(kind: type[Settings]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Path (section and name, or a name alone) and declaration of each setting."""
    for section, outer in kind.model_fields.items():
        inner = outer.annotation
        if not (isinstance(inner, type) and issubclass(inner, Section)):
            yield (section,), outer
            continue
        for name, info in inner.model_fields.items():
            yield (section, name), info


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


# Reading


@dataclass
class _Reading:
    """What was found so far: raw values by section and name, and what is wrong with the names."""

    kind: type[Settings]
    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[tuple[str, ...], tuple[str, object]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def take(self, path: Sequence[str], value: object, origin: str) -> None:
        """Note a value for the setting that `path` names, or the error that there is none."""
        plain = tuple(_plain(part) for part in path)
        known = {tuple(map(_plain, found)): found for found, _ in _fields(self.kind)}
        if plain not in known:
            self.errors.append(self._unknown(path, origin))
            return
        *section, name = known[plain]
        before = self.origins.get(known[plain])
        if before and before[0] == "environment" == origin and before[1] != value:
            self.errors.append(f"{self.name(*section, name)} is set twice in the environment, to different values")
        within = self.values.setdefault(section[0], {}) if section else self.values
        within[name] = value
        self.origins[known[plain]] = (origin, value)

    def _unknown(self, path: Sequence[str], origin: str) -> str:
        given = ":".join((self.kind.product, *(to_pascal(part) if "_" in part else part for part in path)))
        names = [row.name for row in table(self.kind)]
        by_plain = {name.lower(): name for name in names}
        near = difflib.get_close_matches(given.lower(), list(by_plain), n=1, cutoff=0.0)
        return f"{given} (in the {origin}) is not a setting; the nearest is {by_plain[near[0]]}"

    def name(self, *path: str) -> str:
        return ":".join((self.kind.product, *(to_pascal(part) for part in path)))


def load(kind: type[AnySettings], environment: Mapping[str, str], file: Path | None = None) -> AnySettings:
    """Read a product's settings from a file, if any, and the environment. Raises SettingsError with all errors."""
    reading = _Reading(kind)
    if file is not None and file.exists():
        _read_file(reading, file)
    prefix = f"{kind.product.lower()}__"
    for variable, value in environment.items():
        if variable.lower().startswith(prefix):
            reading.take(variable[len(prefix) :].split("__"), value, "environment")
    try:
        settings = kind.model_validate(reading.values)
    except ValidationError as error:
        told = [
            f"{reading.name(*map(str, one['loc'][:2]))}: {_sentence(one)}" for one in error.errors(include_input=False)
        ]
        raise SettingsError(reading.errors + told) from None
    errors = reading.errors + list(settings.contradictions())
    if errors:
        raise SettingsError(errors)
    return settings


def _read_file(reading: _Reading, file: Path) -> None:
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        where = re.search(r"\(at line \d+, column \d+\)", str(error))
        reading.errors.append(f"{file} cannot be read as TOML" + (f" {where[0]}" if where else ""))
        return
    for section, values in content.items():
        for name, value in values.items() if isinstance(values, dict) else [("", values)]:
            reading.take((section, name) if name else (section,), value, f"file {file.name}")


_SENTENCES: Mapping[str, Callable[[dict[str, Any]], str]] = {
    "int_parsing": lambda ctx: "a whole number",
    "int_type": lambda ctx: "a whole number",
    "int_from_float": lambda ctx: "a whole number",
    "bool_parsing": lambda ctx: "true or false",
    "bool_type": lambda ctx: "true or false",
    "string_type": lambda ctx: "a text",
    "greater_than": lambda ctx: f"more than {render(ctx['gt'])}",
    "greater_than_equal": lambda ctx: f"at least {render(ctx['ge'])}",
    "less_than": lambda ctx: f"less than {render(ctx['lt'])}",
    "less_than_equal": lambda ctx: f"at most {render(ctx['le'])}",
    "literal_error": lambda ctx: f"one of {ctx['expected']}",
    "value_error": lambda ctx: str(ctx["error"]),
}


def _sentence(error: Any) -> str:
    """What the setting should be. Nothing in it comes from the value."""
    make = _SENTENCES.get(error["type"])
    return f"should be {make(error.get('ctx', {}))}" if make else f"has a value of the wrong kind ({error['type']})"
