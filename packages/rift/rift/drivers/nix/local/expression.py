"""What Nix is asked, and what its answer may be: the shape of `fixed-labs.rift.<system>`. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from keel.sizes import KIB
from rift.drivers.nix.protocol import SETUP_BYTES, VARIABLES_BYTES, VARIABLES_MOST, BuildError

SYSTEMS = {"x86_64": "x86_64-linux", "aarch64": "aarch64-linux"}
"""Nix's names, by what `uname -m` says."""
STORE_PATH = re.compile(r"/nix/store/[0-9a-df-np-sv-z]{32}-[0-9a-zA-Z+\-._?=]{1,211}")
OUTPUT = re.compile(r"[A-Za-z0-9+\-._?=]{1,200}")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MEMBERS = ("env", "packages", "setup")
PACKAGES_MOST = 1000
VARIABLE_MOST = 32 * KIB
"""Characters of one variable."""

#: A function of `fixed-labs.rift` to what this host wants of it. No string in the answer carries what it depends on:
#: `needs` says that, by derivation, with the outputs.
QUESTION = """
rift:
let
  inherit (builtins) attrNames attrValues getContext isAttrs isList isString mapAttrs typeOf unsafeDiscardStringContext;
  plain = unsafeDiscardStringContext;
  needs = text: map
    (name: { drv = plain name; outputs = (getContext text).${name}.outputs or [ ]; })
    (attrNames (getContext text));
  text = value: if isString value then { text = plain value; needs = needs value; } else { type = typeOf value; };
  package = value:
    if isAttrs value && (value.type or "") == "derivation" then
      let chosen = if value.outputSpecified or false then value else value.bin or value; in
      { drv = plain chosen.drvPath; output = plain (chosen.outputName or "out"); path = plain chosen.outPath; }
    else { type = typeOf value; };
  environment = value: {
    members = attrNames value;
    packages =
      if !(value ? packages) then [ ]
      else if isList value.packages then map package value.packages
      else { type = typeOf value.packages; };
    env =
      if !(value ? env) then { }
      else if isAttrs value.env then { all = mapAttrs (name: text) value.env; }
      else { type = typeOf value.env; };
    setup = text (value.setup or "");
  };
in
if !isAttrs rift then { type = typeOf rift; }
else if rift ? version && rift ? image then { envelope = true; }
else if !(rift ? SYSTEM) then { systems = attrNames rift; }
else if !isAttrs rift.SYSTEM then { inner = typeOf rift.SYSTEM; }
else if rift.SYSTEM ? version && rift.SYSTEM ? image then { envelope = true; }
else environment rift.SYSTEM
"""

KINDS = {
    "set": "an attribute set",
    "list": "a list",
    "string": "a string",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "lambda": "a function",
    "path": "a path",
    "null": "null",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a flake asks for: `paths` of packages in their order, `needs` as `nix-store --realise` takes them, `also`
    sources that variables or the setup name.
    """

    paths: tuple[str, ...]
    needs: tuple[str, ...]
    also: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    setup: str


def question(system: str) -> str:
    """The function that Nix applies to `fixed-labs.rift`."""
    return QUESTION.replace("SYSTEM", system)


def wanted(text: str, system: str) -> Wanted:
    """What Nix answered. Raises BuildError with the sentence for whoever wrote the flake.

    What comes from a jail is believed in nothing: an answer of another form is refused as well.
    """
    try:
        answer = json.loads(text)
        return _wanted(answer, system)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise BuildError(f"Nix answered nothing of use for fixed-labs.rift.{system}.") from None


def _wanted(answer: dict[str, Any], system: str) -> Wanted:
    here = f"fixed-labs.rift.{system}"
    if "type" in answer:
        raise BuildError(
            f"fixed-labs.rift is {_kind(answer['type'])}; it should be an attribute set with a member for each system: "
            f"{here} = {{ packages = [ … ]; }};"
        )
    if "envelope" in answer:
        raise BuildError(
            "fixed-labs.rift is written in the older form, { version = …; image = …; }, which names an image. "
            f"Images are not used any more: write {here} = {{ packages = [ … ]; }}; instead, with the packages that "
            "the image had."
        )
    if "systems" in answer:
        there = ", ".join(map(_shown, answer["systems"])) or "none"
        raise BuildError(f"This Rift runs on {system}, and fixed-labs.rift has: {there}. Add {here} to flake.nix.")
    if "inner" in answer:
        raise BuildError(f"{here} is {_kind(answer['inner'])}; it should be an attribute set.")
    others = [_shown(name) for name in answer["members"] if name not in MEMBERS]
    if others:
        raise BuildError(f"{here} has {', '.join(others)}; its members are packages, env and setup, and no others.")
    needs: dict[str, None] = {}
    also: dict[str, None] = {}
    paths = _packages(answer["packages"], here, needs)
    env = _env(answer["env"], here, needs, also)
    setup = _text(answer["setup"], f"{here}.setup", needs, also)
    _fits(here, paths, env, setup)
    return Wanted(paths, tuple(needs), tuple(also), env, setup)


def _fits(here: str, paths: tuple[str, ...], env: tuple[tuple[str, str], ...], setup: str) -> None:
    """Raise BuildError where no box could have this: known before anything is built."""
    size = sum(len(f"{name}={value}".encode()) for name, value in env)
    on_path = sum(len(f"{path}/bin:") for path in paths)
    if len(env) > VARIABLES_MOST or size + on_path > VARIABLES_BYTES:
        raise BuildError(
            f"{here}.env has {len(env)} variables of {size} bytes, and packages take {on_path} bytes of PATH; a box "
            f"takes {VARIABLES_MOST} variables, and {VARIABLES_BYTES // KIB} KiB together. Write variables into a file "
            "by `setup`, or put packages into one, as `pkgs.buildEnv` does."
        )
    if len(setup.encode()) > SETUP_BYTES:
        raise BuildError(
            f"{here}.setup has {len(setup.encode())} bytes; a box takes {SETUP_BYTES // KIB} KiB. "
            "Put it into a script of the repository, and let `setup` run that."
        )


def _packages(found: Any, here: str, needs: dict[str, None]) -> tuple[str, ...]:
    if isinstance(found, dict):
        raise BuildError(f"{here}.packages is {_kind(found['type'])}; it should be a list of derivations.")
    if len(found) > PACKAGES_MOST:
        raise BuildError(f"{here}.packages has {len(found):,} derivations; {PACKAGES_MOST:,} are the most.")
    paths: dict[str, None] = {}
    for number, package in enumerate(found):
        if "type" in package:
            raise BuildError(
                f"{here}.packages: element {number} (from 0) is {_kind(package['type'])}; each should be a derivation."
            )
        needs[f"{_derivation(package['drv'])}!{_output(package['output'])}"] = None
        paths[_path(package["path"])] = None
    return tuple(paths)


def _env(found: Any, here: str, needs: dict[str, None], also: dict[str, None]) -> tuple[tuple[str, str], ...]:
    if "type" in found:
        raise BuildError(f"{here}.env is {_kind(found['type'])}; it should be an attribute set of strings.")
    pairs = []
    for name, value in found.get("all", {}).items():
        if not NAME.fullmatch(name):
            raise BuildError(
                f"{here}.env has {_shown(name)}, which cannot be a variable's name: letters, digits and _ can, "
                "the first no digit."
            )
        text = _text(value, f"{here}.env.{name}", needs, also)
        if len(text) > VARIABLE_MOST:
            raise BuildError(f"{here}.env.{name} has {len(text):,} characters; {VARIABLE_MOST:,} are the most.")
        pairs.append((name, text))
    return tuple(pairs)


def _text(found: dict[str, Any], where: str, needs: dict[str, None], also: dict[str, None]) -> str:
    if "type" in found:
        mend = ' Write it as a string: "…".' if found["type"] in ("int", "float", "bool") else ""
        raise BuildError(f"{where} is {_kind(found['type'])}; it should be a string.{mend}")
    text = found["text"]
    if not isinstance(text, str):
        raise TypeError
    if "\0" in text:
        raise ValueError  # no string of Nix's has it, and no variable or shell can
    text.encode()  # nor half of a character: a ValueError
    for one in found["needs"]:
        if one["drv"].endswith(".drv") and one["outputs"]:
            needs.update({f"{_derivation(one['drv'])}!{_output(output)}": None for output in one["outputs"]})
        else:
            also[_path(one["drv"])] = None
    return text


def _derivation(path: Any) -> str:
    if not _path(path).endswith(".drv"):
        raise ValueError
    return str(path)


def _path(path: Any) -> str:
    if not isinstance(path, str) or not STORE_PATH.fullmatch(path):
        raise ValueError
    return path


def _output(name: Any) -> str:
    if not isinstance(name, str) or not OUTPUT.fullmatch(name):
        raise ValueError
    return name


def _kind(type: Any) -> str:
    return KINDS.get(type, "something else")


def _shown(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name[:100])
