"""The verbs as programs of the jail: `verbs` lists them, each is called by its name. What is asked of the forge goes to
the door; the answer is text for a model to read. Nothing here decides anything.

Exit codes: 0 done, 1 refused or failed, 2 called wrongly.
"""

from __future__ import annotations

import json
import subprocess
import sys

from rift_agent.asked import PORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any, Callable

BODY_LIMIT = 262144  # bytes of what a person reads: a pull request's text, a comment
PATIENCE = 300.0  # seconds for an answer

VERBS = {  # name → what it does, and an example
    "fetch": ("get what is new at the origin: branches and tags", "fetch"),
    "push": ("push the current branch, or HEAD to BRANCH, at the origin", "push fix-login"),
    "pr-open": ("open a pull request from the current branch", "pr-open --title 'Fix the login' --body 'Why, and how'"),
    "pr-comment": ("comment on a pull request or an issue", "pr-comment 12 --body 'Done in the last commit.'"),
    "pr-status": ("a pull request's state, checks, reviews and comments", "pr-status 12"),
    "issue-read": ("an issue with its comments", "issue-read 7"),
    "ci-status": ("the checks of a commit, with the end of failed logs", "ci-status HEAD"),
}


class Failed(Exception):
    """What the program ends with, in a sentence."""


def main(name: str, arguments: list[str]) -> int:
    """Does the verb; returns the exit code."""
    if name == "verbs" and arguments and arguments[0] in VERBS:
        name, *arguments = arguments  # where a program of the repository's has a verb's name
    try:
        return _verbs(arguments) if name == "verbs" else _RUN[name](_parser(name).parse_args(arguments))
    except Failed as failed:
        sys.stderr.write(f"{name}: {failed}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _verbs(arguments: list[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(
        prog="verbs", description="List what goes to the forge from this box; each is a program of its own.",
        epilog="example: verbs\n`verbs NAME …` runs one whatever else is called so.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="as JSON")
    if parser.parse_args(arguments).json:
        _tell(json.dumps([{"name": name, "does": told, "example": how} for name, (told, how) in VERBS.items()]))
        return 0
    for name, (told, how) in VERBS.items():
        _tell(f"{name:<11} {told:<58} {how}")
    _tell("\nEach has --help. Plain `git fetch` and `git push` work too; this box holds no credential.")
    return 0


def _parser(name: str) -> argparse.ArgumentParser:
    import argparse

    told, how = VERBS[name]
    parser = argparse.ArgumentParser(prog=name, description=f"{told[0].upper()}{told[1:]}.", epilog=f"example: {how}")
    if name == "push":
        parser.add_argument("branch", nargs="?", help="the branch at the origin; else the name of the current one")
        parser.add_argument("--force-with-lease", action="store_true", help="replace what was there when last fetched")
    elif name == "pr-open":
        parser.add_argument("--title", required=True)
        _body(parser)
        parser.add_argument("--base", help="the branch it is to go into; else the repository's default branch")
        parser.add_argument("--draft", action="store_true")
    elif name == "pr-comment":
        parser.add_argument("number", type=int)
        _body(parser)
    elif name == "pr-status":
        parser.add_argument("number", type=int, nargs="?", help="else the one open from the current branch")
    elif name == "issue-read":
        parser.add_argument("number", type=int)
    elif name == "ci-status":
        parser.add_argument("ref", nargs="?", default="HEAD", help="a commit or a branch; else HEAD")
    if name.startswith(("pr-", "issue-", "ci-")):
        parser.add_argument("--json", action="store_true", help="the answer as JSON")
    return parser


def _body(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--body", help="its text, in Markdown")
    group.add_argument("--body-file", metavar="FILE", help="a file with its text; - reads standard input")


def _fetch(_: argparse.Namespace) -> int:
    code = _git("fetch", "--prune", "--tags", "origin")
    if code == 0:
        _tell("Fetched. `git log --oneline HEAD..@{upstream}` shows what is new for this branch.")
    return code


def _push(asked: argparse.Namespace) -> int:
    branch = asked.branch or _branch()
    if not branch:
        raise Failed("HEAD is on no branch; name one: push BRANCH")
    words = ["push", "--set-upstream", *(["--force-with-lease"] if asked.force_with_lease else [])]
    code, said = _git_heard(*words, "origin", f"HEAD:refs/heads/{branch}")
    if code == 0 and b"Everything up-to-date" in said:
        _tell(f"{branch} at the origin has this commit already: nothing was pushed.")
    elif code == 0:
        _tell(f"Pushed to {branch}. Next: pr-open --title '…' opens a pull request, where there is none yet.")
    return code


def _pr_open(asked: argparse.Namespace) -> int:
    head = _upstream() or _branch()
    if not head:
        raise Failed("HEAD is on no branch; `git switch -c NAME`, then push")
    return _ask("pr-open", {"title": asked.title, "body": _text(asked), "head": head, "base": asked.base,
                            "draft": asked.draft}, asked)  # fmt: skip


def _pr_comment(asked: argparse.Namespace) -> int:
    body = _text(asked)
    if not body.strip():
        raise Failed("a comment has a text: --body TEXT, or --body-file FILE")
    return _ask("pr-comment", {"number": asked.number, "body": body}, asked)


def _pr_status(asked: argparse.Namespace) -> int:
    if asked.number is None and not (_upstream() or _branch()):
        raise Failed("HEAD is on no branch; name the pull request: pr-status NUMBER")
    head = None if asked.number is not None else _upstream() or _branch()
    return _ask("pr-status", {"number": asked.number, "head": head}, asked)


def _issue_read(asked: argparse.Namespace) -> int:
    return _ask("issue-read", {"number": asked.number}, asked)


def _ci_status(asked: argparse.Namespace) -> int:
    commit = _said("rev-parse", "--verify", "--quiet", "--end-of-options", f"{asked.ref}^{{commit}}")
    commit = commit or _said("rev-parse", "--verify", "--quiet", f"origin/{asked.ref}^{{commit}}")
    if not commit:
        raise Failed(f"there is no commit {asked.ref!r} here; `fetch` first?")
    return _ask("ci-status", {"commit": commit, "ref": asked.ref}, asked)


_RUN: dict[str, Callable[[argparse.Namespace], int]] = {
    "fetch": _fetch, "push": _push, "pr-open": _pr_open, "pr-comment": _pr_comment, "pr-status": _pr_status,
    "issue-read": _issue_read, "ci-status": _ci_status,
}  # fmt: skip


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _text(asked: argparse.Namespace) -> str:
    if asked.body_file is None:
        return str(asked.body or "")
    try:
        if asked.body_file == "-":
            data = sys.stdin.buffer.read(BODY_LIMIT + 1)
        else:
            with open(asked.body_file, "rb") as file:
                data = file.read(BODY_LIMIT + 1)
    except OSError as error:
        raise Failed(f"{asked.body_file} cannot be read: {error.strerror}") from None
    if len(data) > BODY_LIMIT:
        raise Failed(f"the text has more than {BODY_LIMIT // 1024} KiB")
    return data.decode("utf-8", "replace")


def _git(*words: str) -> int:
    sys.stdout.flush()
    try:
        return subprocess.call(["git", *words])
    except OSError as error:
        raise Failed(f"git cannot be started: {error.strerror}") from None


def _git_heard(*words: str) -> tuple[int, bytes]:
    """Runs git; its exit code, and what it said on stderr, which is shown as it comes."""
    sys.stdout.flush()
    try:
        git = subprocess.Popen(["git", *words], stderr=subprocess.PIPE)
    except OSError as error:
        raise Failed(f"git cannot be started: {error.strerror}") from None
    said = b""
    for line in git.stderr or ():
        sys.stderr.buffer.write(line)
        sys.stderr.flush()
        said = said[-4096:] + line
    return git.wait(), said


def _said(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise Failed(f"git cannot be started: {error.strerror}") from None
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""


def _branch() -> str:
    return _said("symbolic-ref", "--quiet", "--short", "HEAD")


def _upstream() -> str:
    """The branch at the origin that the current one was pushed to."""
    found = _said("rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}")
    return found[len("origin/") :] if found.startswith("origin/") else ""


def _ask(verb: str, fields: dict[str, Any], asked: argparse.Namespace) -> int:
    """Asks the door; prints what it answers. The exit code."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=PATIENCE)
    try:
        connection.request("POST", f"/verbs/{verb}", json.dumps(fields).encode(),
                           {"Content-Type": "application/json", "Accept": "application/json"})  # fmt: skip
        response = connection.getresponse()
        data = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise Failed(f"Rift's door does not answer: {error}. Try again.") from None
    finally:
        connection.close()
    if response.status != 200:
        raise Failed(data.decode("utf-8", "replace").strip() or f"status {response.status}")
    answer = json.loads(data)
    _tell(json.dumps(answer["data"], indent=1, ensure_ascii=False) if asked.json else answer["text"])
    return int(answer["exit"])
