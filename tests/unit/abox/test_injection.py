"""Injections: which headers, from which secrets, on which requests; the rest is refused."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.allowlist import Allow, Deny, Policy, Reason, Request, parse_policy, verdict
from abox.errors import AboxErrors
from abox.injection import FORBIDDEN_HEADERS, HEADERS_MAX, Injection

KEY = {"header": "Authorization", "secret": "api_key"}
OTHER = {"header": "X-Api-Key", "secret": "other"}


def entry(inject: object = KEY, **more: Any) -> dict[str, Any]:
    return {"host": "api.allowed.test", "inject": inject, **more}


def told(allow: list[object], **settings: Any) -> list[str]:
    """What is refused, and why; the positions are those of the lists."""
    with pytest.raises(AboxErrors) as caught:
        parse_policy(allow, **settings)
    for error in caught.value.errors:
        assert all((error.what, error.why, error.remedy))
    return [f"{error.what} because {error.why}" for error in caught.value.errors]


def test_an_injection_is_a_part_of_the_entry_and_its_port_is_that_of_https() -> None:
    policy = parse_policy([entry()])
    (made,) = policy.entries
    assert made.inject == (Injection(header="Authorization", secret="api_key"),)
    assert made.ports == (443,)
    assert policy.secret_names == ("api_key",)
    assert Policy.from_document(policy.to_document()) == policy
    assert parse_policy([entry(ports=[8443])]).entries[0].ports == (8443,)


def test_several_headers_stand_in_one_entry_in_any_order() -> None:
    both = parse_policy([entry([KEY, OTHER])])
    assert both == parse_policy([entry([OTHER, KEY])])
    assert both.secret_names == ("api_key", "other")


@pytest.mark.parametrize(
    ("inject", "where", "why"),
    [
        (None, ".inject", "mapping"),
        ("Authorization", ".inject", "mapping"),
        ([], ".inject", f"1 to {HEADERS_MAX}"),
        ([{"header": f"X-{i}", "secret": "k"} for i in range(HEADERS_MAX + 1)], ".inject", "1 to"),
        ({"header": "Authorization"}, ".inject", "'secret' is missing"),
        ({"secret": "api_key"}, ".inject", "'header' is missing"),
        ({**KEY, "value": "x"}, ".inject", "'value' is unknown"),
        ({**KEY, "header": 7}, ".inject.header", "letters"),
        ({**KEY, "header": ""}, ".inject.header", "letters"),
        ({**KEY, "header": "X Y"}, ".inject.header", "letters"),
        ({**KEY, "header": "X:"}, ".inject.header", "letters"),
        ({**KEY, "header": "X\r\nY"}, ".inject.header", "letters"),
        ({**KEY, "header": ":authority"}, ".inject.header", "letters"),
        ({**KEY, "header": "x" * 65}, ".inject.header", "letters"),
        ({**KEY, "secret": "api key"}, ".inject.secret", "named"),
        ({**KEY, "secret": "a.b"}, ".inject.secret", "named"),
        ({**KEY, "secret": ""}, ".inject.secret", "named"),
        ({**KEY, "secret": 7}, ".inject.secret", "named"),
        ([KEY, {"header": "authorization", "secret": "other"}], ".inject", "twice"),
        ([OTHER, {"header": "x_api_key", "secret": "api_key"}], ".inject", "twice"),
        ([KEY, 7], ".inject[1]", "mapping"),
    ],
)  # fmt: skip
def test_what_is_no_injection_is_refused_with_its_place(inject: Any, where: str, why: str) -> None:
    (error,) = told(["ok.test", entry(inject)])
    assert error.startswith(f"abox:sandbox.allow[1]{where} is refused because")
    assert why in error


@pytest.mark.parametrize(
    "header",
    [*sorted(FORBIDDEN_HEADERS), "HOST", "Content_Length", "Proxy-Authorization", "X-Abox-Name",
     "x_abox_port", "X-Envoy-Upstream-Rq-Timeout-Ms", "Sec-WebSocket-Key"],
)  # fmt: skip
def test_a_header_that_frames_or_routes_the_message_is_refused(header: str) -> None:
    (error,) = told([entry({**KEY, "header": header})])
    assert f"allow[0].inject.header: {header!r} is refused" in error


def test_a_value_in_the_place_of_a_name_is_not_repeated() -> None:
    for wrong in (
        entry({"header": "Authorization: Bearer s3cr3t", "secret": "api_key"}),
        entry({"header": "Authorization", "secret": "Bearer s3cr3t"}),
        entry({"header": "Authorization", "secret": "api_key", "value": "s3cr3t"}),
        entry("Bearer s3cr3t"),
        entry("Bearer s3cr3t", tls="passthrough", paths=["/v1/*"]),
        entry(KEY, secret="Bearer s3cr3t"),
    ):
        assert all("s3cr3t" not in error for error in told([wrong]))


def test_a_secret_that_the_stack_lacks_is_refused_where_the_names_are_known() -> None:
    assert parse_policy([entry()], secret_names=["api_key"])
    (error,) = told([entry()], secret_names=["api_kye"])
    assert "'api_key' is refused because abox:secrets has no such name, but api_kye" in error
    (error,) = told([entry()], secret_names=[])
    assert "abox:secrets is empty" in error


@pytest.mark.parametrize(
    ("host", "deny"),
    [("api.allowed.test", "api.allowed.test"), ("api.allowed.test", "*.allowed.test"),
     ("*.allowed.test", "*.allowed.test"), ("*.a.allowed.test", "*.allowed.test")],
)  # fmt: skip
def test_an_injection_that_the_denylist_undoes_is_refused(host: str, deny: str) -> None:
    (error,) = told([{"host": host, "inject": KEY}], deny=[deny])
    assert "allow[0].inject is refused because the denylist holds" in error


def test_a_denied_part_of_a_wildcard_leaves_its_injection() -> None:
    policy = parse_policy([{"host": "*.allowed.test", "inject": KEY}], ["no.allowed.test"])
    assert isinstance(verdict(policy, Request("no.allowed.test", 443)), Deny)
    judged = verdict(policy, Request("yes.allowed.test", 443))
    assert isinstance(judged, Allow)
    assert judged.inject


def test_an_injection_into_tls_that_is_not_intercepted_is_refused() -> None:
    (error,) = told([entry()], tls_interception=False)
    assert "tls_interception: false" in error


def test_an_injection_and_passthrough_do_not_go_together() -> None:
    passed = {"host": "api.allowed.test", "tls": "passthrough"}
    (error,) = told([entry(tls="passthrough")])
    assert "allow[0].inject is refused because with tls: passthrough" in error
    (error,) = told([entry(), {**passed, "ports": [443]}])
    assert "api.allowed.test has entries with tls: intercept and with tls: passthrough" in error
    (error,) = told([entry(tls="intercept"), "api.allowed.test"], tls_interception=False)
    assert "for port 443" in error
    assert parse_policy([entry(tls="intercept")], tls_interception=False).secret_names
    assert parse_policy([entry(), {**passed, "ports": [8443]}]).secret_names


@pytest.mark.parametrize("ports", [[80], [80, 443]])
def test_an_injection_into_http_in_the_clear_is_refused(ports: list[int]) -> None:
    (error,) = told([entry(ports=ports)])
    assert f"allow[0].ports: {ports} is refused because port 80" in error
    assert parse_policy([entry(), {"host": "api.allowed.test", "ports": [80]}]).secret_names


@pytest.mark.parametrize("method", ["TRACE", "TRACK", "trace"])
def test_a_request_that_an_origin_repeats_gets_no_secret(method: str) -> None:
    asked = Request("api.allowed.test", 443, method=method)
    judged = verdict(parse_policy([entry()]), asked)
    assert isinstance(judged, Deny)
    assert judged.reason is Reason.METHOD
    assert verdict(parse_policy([entry(), "api.allowed.test"]), asked) == Allow("api.allowed.test")


def test_a_limit_to_requests_that_an_origin_repeats_is_refused() -> None:
    (error,) = told([entry(methods=["GET", "TRACE"])])
    assert "allow[0].methods: ['GET', 'TRACE'] is refused because TRACE" in error


def test_an_address_gets_no_secret() -> None:
    allow: list[object] = [{"host": "198.51.100.10", "inject": KEY}]
    (error,) = told(allow, allow_private_cidrs=["198.51.100.0/24"])
    assert "name no address" in error


def test_everything_wrong_with_an_entry_is_told_in_one_run() -> None:
    wrong = entry({"header": "Host", "secret": "gone"}, ports=[0])
    found = told([wrong], deny=["api.allowed.test"], tls_interception=False, secret_names=["k"])
    places = [error.split(" ")[0].rstrip(":") for error in found]
    stem = "abox:sandbox.allow[0]"
    assert places == [f"{stem}.ports", f"{stem}.inject.header", f"{stem}.inject.secret",
                      f"{stem}.inject"]  # fmt: skip


def test_an_injection_that_would_never_happen_is_refused() -> None:
    second = entry(OTHER)
    assert parse_policy([entry(), entry()]).entries == parse_policy([entry()]).entries
    (error,) = told([entry(), second])
    assert "allow[1].inject is refused because an entry above decides" in error
    narrow = entry(OTHER, paths=["/v1/*"], methods=["GET"])
    assert told([entry(), narrow])
    assert parse_policy([narrow, entry()])
    assert parse_policy([entry(paths=["/v2/*"]), narrow])
    assert parse_policy([entry(ports=[443]), entry(OTHER, ports=[443, 8443])])


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request("api.allowed.test", 443, path="/v1/x"), "api_key"),
        (Request("api.allowed.test", 443, path="/v1/../v1/x"), "api_key"),
        (Request("API.allowed.test.", 443, path="/v1/x?y"), "api_key"),
        (Request("api.allowed.test", 443, path="/v2/x"), None),
        (Request("api.allowed.test", 443, path="/v1%2fx"), None),
        (Request("api.allowed.test", 443, method="POST", path="/v1/x"), None),
        (Request("api.allowed.test", 8443, path="/v1/x"), Reason.PORT),
        (Request("api.allowed.test", 80, "http", path="/v1/x"), None),
        (Request("only.allowed.test", 443, "http"), Reason.TLS_REQUIRED),
        (Request("only.allowed.test", 443), "other"),
        (Request("x.only.allowed.test", 443), Reason.NOT_ALLOWED),
        (Request("a.wild.test", 443), "api_key"),
        (Request("plain.wild.test", 443), None),
    ],
)
def test_the_secret_goes_on_requests_of_its_entry_and_no_others(
    request_: Request, expected: str | Reason | None
) -> None:
    policy = parse_policy(
        [
            "api.allowed.test",
            entry(methods=["GET"], paths=["/v1/*"]),
            {"host": "only.allowed.test", "inject": OTHER},
            {"host": "*.wild.test", "inject": KEY},
            "plain.wild.test",
        ]
    )
    judged = verdict(policy, request_)
    if isinstance(expected, Reason):
        assert isinstance(judged, Deny)
        assert judged.reason is expected
    else:
        assert isinstance(judged, Allow)
        assert [one.secret for one in judged.inject] == ([expected] if expected else [])


def test_passive_mode_leaves_injections_as_they_are() -> None:
    policy = parse_policy([entry()], mode="passive")
    inside = verdict(policy, Request("api.allowed.test", 443))
    plain = verdict(policy, Request("api.allowed.test", 80, "http"))
    assert isinstance(inside, Allow)
    assert isinstance(plain, Allow)
    assert (len(inside.inject), len(plain.inject)) == (1, 0)


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,20}", fullmatch=True), st.randoms())
def test_all_spellings_that_servers_take_for_the_header_are_covered(header: str, chance) -> None:
    """CGI turns '-' into '_', and the letter case never counts."""
    injection = Injection(header=header, secret="k")
    spelled = "".join(chance.choice("-_.") if c in "-_" else c for c in header.lower())
    assert re.fullmatch(injection.spellings, spelled)
    assert not re.fullmatch(injection.spellings, f"{spelled}x")
    assert not re.fullmatch(injection.spellings, spelled[:-1])
