"""The proxy with real names: what they lead to, when that changes, redirects; and the tools that packages come by."""

from __future__ import annotations

import datetime as dt
import functools
import io
import json
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.conformance.agent.boxes import Box
from tests.conformance.agent.plane import Plane
from tests.conformance.agent.world import PUBLIC, PUBLIC_6, World

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make network namespaces"),
    pytest.mark.needs("ip"),
]
PROXY = "http://127.0.0.1:3128"


@pytest.fixture
def plane(world: World) -> Iterator[Plane]:
    """The control plane, on the loopback of the boxes' host."""
    plane = world.within(world.host, Plane)
    yield plane
    plane.down()


@pytest.fixture
def box(make_box: Callable[..., Box], world: World) -> Box:
    box = make_box(world=world, network="proxy", named="acme/app", allow=["public.example", "*.listed.example"])
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        box.config["env"][name] = box.config["env"][name.lower()] = PROXY
    return box


def sh(box: Box, command: str) -> str:
    return box.plane.output(box.plane.run(command)["n"]).decode()


def told(box: Box) -> list[tuple[str, int, str]]:
    return [(e["host"], e["port"], e["why"]) for e in box.plane.events if e["type"] == "refused"]


def connections(world: World) -> list[tuple[str, str]]:
    return [one for one in world.heard if one[0] != "name"]


TRICKS = {
    "a": ["10.9.0.1"],
    "aaaa": ["fd00:9::1"],
    "host": ["127.0.0.1"],
    "host6": ["::1"],
    "self": ["11.22.33.2"],
    "selfalso": ["11.22.33.3"],
    "self6": ["2600:bbbb::2"],
    "selfcarried": ["64:ff9b::11.22.33.2"],
    "any": ["0.0.0.0"],
    "metadata": ["169.254.169.254"],
    "mapped": ["::ffff:10.9.0.1"],
    "mappedhost": ["::ffff:127.0.0.1"],
    "nat64": ["64:ff9b::10.9.0.1"],
    "carrier": ["100.64.3.3"],
    "linklocal": ["fe80::1"],
    "both": [PUBLIC, "10.9.0.1"],
    "bothways": ["10.9.0.1", PUBLIC],
    "mixed": [PUBLIC, "fd00:9::1"],
    "mixed6": [PUBLIC_6, "172.20.0.5"],
}


def test_a_listed_name_that_leads_to_a_private_address_is_refused_by_it(box: Box, world: World) -> None:
    for name, addresses in TRICKS.items():
        world.names[f"{name}.listed.example"] = functools.partial(list, addresses)
    box.start().ready()
    said = sh(box, "for name in " + " ".join(TRICKS) + "; do curl -sS http://$name.listed.example/; done")
    assert said.count("which is") + said.count("is this host itself") == len(TRICKS), said
    assert "here is" not in said
    box.plane.wait(lambda: len(told(box)) == len(TRICKS))
    assert told(box) == [(f"{name}.listed.example", 80, "private_address") for name in TRICKS]
    assert connections(world) == []


def test_a_name_that_changes_its_answer_gains_nothing(box: Box, world: World) -> None:
    """What is connected to is what was judged, and the next connection is judged anew."""
    answers = iter([[PUBLIC]])
    world.names["turns.listed.example"] = lambda: next(answers, ["10.9.0.1"])
    box.start().ready()
    first = sh(box, "curl -4 -sS http://turns.listed.example/")
    second = sh(box, "curl -4 -sS http://turns.listed.example/")
    assert "here is 10" not in first + second
    assert "turns.listed.example has the address 10.9.0.1, which is private" in second
    assert set(connections(world)) <= {("tcp", PUBLIC)}


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("inside.listed.example", "inside.listed.example has the address 10.9.0.1, which is private"),
        ("unlisted.example", "rift repo network acme/app --allow unlisted.example"),
        ("10.9.0.1", "10.9.0.1 is not on the allow list"),
        ("public.example:8080", "only ports 80 and 443"),
        ("elsewhere.listed.example", f"here is {PUBLIC}"),
    ],
)
def test_a_redirect_is_judged_like_any_request(box: Box, world: World, to: str, said: str) -> None:
    world.names["inside.listed.example"] = lambda: ["10.9.0.1"]
    world.names["elsewhere.listed.example"] = lambda: [PUBLIC]
    box.start().ready()
    assert said in sh(box, f"curl -sSL http://public.example/to/{to}")
    assert {at for _, at in connections(world)} == {PUBLIC}


def test_what_a_request_calls_its_host_is_not_where_it_goes(box: Box, world: World) -> None:
    world.names["inside.listed.example"] = lambda: ["10.9.0.1"]
    box.start().ready()
    assert sh(box, "curl -sS -H 'Host: inside.listed.example' http://public.example/") == f"here is {PUBLIC}\n"
    assert "10.9.0.1, which is private" in sh(box, "curl -sS -H 'Host: public.example' http://inside.listed.example/")
    assert connections(world) == [("tcp", PUBLIC)]


@pytest.mark.needs("curl", "wget")
def test_programs_of_the_box_show_what_they_are_told_of_a_refusal(box: Box) -> None:
    """Those that show no more than the code find the sentence at the proxy itself."""
    sentence = (
        "no.example is not on the allow list of the repository acme/app. "
        "Ask an admin of its organization for: rift repo network acme/app --allow no.example"
    )
    box.start().ready()
    assert sh(box, "curl -sS http://no.example/") == f"{sentence}\n"
    assert sentence in sh(box, "git ls-remote http://no.example/x.git 2>&1")
    python = "import urllib.request as u; u.urlopen('https://no.example')"
    assert sentence in sh(box, f'python3 -c "{python}" 2>&1')
    assert sentence in sh(box, "wget -O- https://no.example/ 2>&1")
    assert "403" in sh(box, "curl -sS https://no.example/ 2>&1")
    assert "403" in sh(box, "git ls-remote https://no.example/x.git 2>&1")
    assert sentence in sh(box, "curl -sS 127.0.0.1:3128")


def certificate(folder: Path) -> Path:
    """A self-signed certificate of public.example with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "public.example")])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("public.example"), x509.IPAddress(ip_address(PUBLIC))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "both.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (folder / "public.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def shop(box: Box, world: World, tmp_path: Path) -> Box:
    """A box whose only listed host has a Python index, an npm registry and a git repository, by https alone."""
    both = certificate(tmp_path)
    for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "PIP_CERT"):
        box.config["env"][name] = "/run/rift/public.pem"
    shown = box.path / "public.pem"
    shown.write_bytes((tmp_path / "public.pem").read_bytes())
    box.config["mounts"].append({"kind": "ro", "source": str(shown), "target": "/run/rift/public.pem"})
    files = tmp_path / "files"
    index = files / "simple" / "thing"
    index.mkdir(parents=True)
    wheel = "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(index / wheel, "w") as archive:
        archive.writestr("thing.py", "WORTH = 42\n")
        archive.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        archive.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("thing-1.0.dist-info/RECORD", "")
    (index / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')
    npm = files / "npm"
    npm.mkdir()
    package = {"name": "thing", "version": "1.0.0", "main": "index.js"}
    with tarfile.open(npm / "thing-1.0.0.tgz", "w:gz") as archive:
        for name, text in (("package.json", json.dumps(package)), ("index.js", "module.exports = 42\n")):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    version = package | {"dist": {"tarball": "https://public.example/npm/thing-1.0.0.tgz"}}
    (npm / "thing").write_text(json.dumps({
        "name": "thing", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version},
    }))  # fmt: skip
    git = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    work = tmp_path / "work"
    for words in (
        (*git, "init", "-q", "-b", "main", str(work)),
        (*git, "-C", str(work), "commit", "-q", "--allow-empty", "-m", "one"),
        (*git, "clone", "-q", "--bare", str(work), str(files / "app.git")),
        (*git, "-C", str(files / "app.git"), "update-server-info"),
    ):
        subprocess.run(
            words, check=True, timeout=60, env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null"}
        )
    world.shop(files, both)
    return box.start().ready()


def test_curl_pip_and_git_work_through_the_proxy(shop: Box) -> None:
    assert sh(shop, "curl -sS -o /dev/null -w '%{http_code}' https://public.example/simple/thing/") == "200"
    pip = "python3 -m pip download -q --disable-pip-version-check --no-deps -d /tmp/got"
    said = sh(shop, f"{pip} -i https://public.example/simple/ thing 2>&1; ls /tmp/got")
    assert said.endswith("thing-1.0-py3-none-any.whl\n"), said
    assert sh(shop, "git ls-remote https://public.example/app.git main").endswith("\trefs/heads/main\n")
    said = sh(shop, "cd /tmp && git clone -q https://public.example/app.git 2>&1; git -C /tmp/app log --format=%s")
    assert said == "one\n"
    assert told(shop) == []


@pytest.mark.needs("npm")
def test_npm_works_through_the_proxy(shop: Box) -> None:
    npm = "npm --registry https://public.example/npm/ --no-update-notifier --no-audit --no-fund --fetch-retries 0"
    npm += " --cafile /run/rift/public.pem"
    assert sh(shop, f"{npm} view thing version 2>&1").strip() == "1.0.0"
    said = sh(shop, f"mkdir /tmp/n && cd /tmp/n && {npm} install thing 2>&1; node -p 'require(\"thing\")'")
    assert said.endswith("42\n"), said
    assert told(shop) == []
