"""`abox explain` judges with the one function, from the settings file alone."""

from __future__ import annotations

import json

import pytest

from abox.errors import AboxError
from cli.checkout import Checkout
from cli.explain import parse_target
from cli.main import run


@pytest.mark.parametrize(
    ("text", "name", "port", "scheme", "path"),
    [
        ("example.com", "example.com", 443, "https", "/"),
        ("example.com:8443", "example.com", 8443, "https", "/"),
        ("example.com:80", "example.com", 80, "http", "/"),
        ("http://Example.COM./a?b=c", "Example.COM.", 80, "http", "/a?b=c"),
        ("https://example.com:444/a", "example.com", 444, "https", "/a"),
        ("[::1]:8080", "::1", 8080, "https", "/"),
        ("https://user@example.com/", "example.com", 443, "https", "/"),
        ("example.com/path", "example.com", 443, "https", "/path"),
    ],
)
def test_a_target_is_a_url_a_name_or_a_name_with_a_port(text, name, port, scheme, path):
    request = parse_target(text, "get")
    assert (request.name, request.port, request.scheme, request.path) == (name, port, scheme, path)
    assert request.method == "GET"


@pytest.mark.parametrize(
    "text",
    ["", "a b", "ftp://a.test/", "a.test:0", "a.test:x", "a.test:70000", "https://", "a\n.test"],
)
def test_anything_else_is_refused(text):
    with pytest.raises(AboxError, match="no URL"):
        parse_target(text, "GET")


@pytest.mark.parametrize(
    ("target", "allowed", "reason"),
    [
        ("example.com", True, None),
        ("sub.example.com", False, "not_allowed"),
        ("x.example.org", True, None),
        ("uploads.example.org", False, "denied"),
        ("example.com:22", False, "port_not_allowed"),
        ("https://api.example.net/v2", False, "path_not_allowed"),
        ("healthcheck.abox.local", True, None),
    ],
)
def test_the_verdict_is_told_with_its_reason(checkout: Checkout, capsys, target, allowed, reason):
    assert run(["explain", "dev", target, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["allowed"] is allowed
    assert document["reason"] == reason
    assert set(document) == {
        "name", "port", "scheme", "method", "path", "allowed", "rule", "reason", "why",
        "inject",
    }  # fmt: skip


def test_a_method_is_judged_too(checkout: Checkout, capsys):
    assert run(["explain", "dev", "https://api.example.net/v1/x", "--method", "delete"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("DENY   DELETE https://api.example.net:443/v1/x\n")
    assert "method_not_allowed" in out


def test_a_denied_name_comes_with_the_command_that_allows_it(checkout: Checkout, capsys):
    assert run(["explain", "dev", "new.example.com"]) == 0
    assert "abox allow dev new.example.com" in capsys.readouterr().out


INJECTING = """\
config:
  abox:secrets:
    api_key: {secure: "v1:c1ph3r"}
  abox:sandbox:
    allow:
      - host: api.example.net
        paths: ["/v1/*"]
        inject: {header: Authorization, secret: api_key}
"""


def test_a_secret_is_told_by_its_name(checkout: Checkout, capsys):
    checkout.stack_file("dev").write_text(INJECTING)
    assert run(["explain", "dev", "https://api.example.net/v1/x"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("ALLOW  GET https://api.example.net:443/v1/x\n")
    assert "  adds:   Authorization from secret api_key\n" in out
    assert "c1ph3r" not in out
    assert run(["explain", "dev", "https://api.example.net/v1/x", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["inject"] == [{"header": "Authorization", "secret": "api_key"}]


def test_a_request_in_the_clear_gets_no_secret(checkout: Checkout, capsys):
    checkout.stack_file("dev").write_text(INJECTING)
    assert run(["explain", "dev", "http://api.example.net:443/v1/x"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("DENY")
    assert "tls_required" in out
    assert "to allow it: ask by https" in out


@pytest.mark.parametrize(
    ("secrets", "told"),
    [
        ("{}", "abox:secrets is empty"),
        ("{other: {secure: c1ph3r}}", "no such name, but other"),
        ("{api_key: s3cr3t}", "in the clear"),
        ("{api_key: {secure: c1ph3r}, other: s3cr3t}", "other is refused"),
    ],
)
def test_secrets_are_judged_by_their_names(checkout: Checkout, capsys, secrets, told):
    cipher = '\n    api_key: {secure: "v1:c1ph3r"}'
    checkout.stack_file("dev").write_text(INJECTING.replace(cipher, f" {secrets}"))
    assert run(["explain", "dev", "api.example.net"]) == 2
    err = capsys.readouterr().err
    assert told in err
    assert "s3cr3t" not in err


def test_one_cipher_for_all_secrets_is_not_looked_into(checkout: Checkout, capsys):
    cipher = '\n    api_key: {secure: "v1:c1ph3r"}'
    checkout.stack_file("dev").write_text(INJECTING.replace(cipher, " {secure: c1ph3r}"))
    assert run(["explain", "dev", "https://api.example.net/v1/x"]) == 0
    assert "adds:   Authorization" in capsys.readouterr().out


def test_wrong_settings_exit_2(checkout: Checkout, capsys):
    checkout.stack_file("dev").write_text("config:\n  abox:sandbox:\n    alow: []\n")
    assert run(["explain", "dev", "example.com"]) == 2
    assert "alow" in capsys.readouterr().err
