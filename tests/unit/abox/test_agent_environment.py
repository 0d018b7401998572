"""Every variable that the sandbox depends on is set, and none of them is the user's to change."""

from abox.agent_environment import (
    BUNDLE,
    JAVA_TRUST_STORE,
    RESERVED,
    SANDBOX_CA,
    TRUST_DIR,
    agent_environment,
)
from abox.pod import AGENT_TRUST_TARGET

PROXY = "http://10.10.3.2:8080"


def test_proxy_variables_stand_in_both_cases():
    env = agent_environment(PROXY)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        assert env[name] == env[name.lower()] == PROXY


def test_every_named_trust_variable_points_into_the_trust_store():
    env = agent_environment(PROXY)
    named = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE", "PIP_CERT"}
    assert {env[name] for name in named} == {BUNDLE}
    assert env["NODE_EXTRA_CA_CERTS"] == SANDBOX_CA
    assert TRUST_DIR == AGENT_TRUST_TARGET


def test_java_is_told_by_properties():
    options = agent_environment(PROXY)["JAVA_TOOL_OPTIONS"].split()
    for scheme in ("http", "https"):
        assert f"-D{scheme}.proxyHost=10.10.3.2" in options
        assert f"-D{scheme}.proxyPort=8080" in options
    assert f"-Djavax.net.ssl.trustStore={JAVA_TRUST_STORE}" in options
    assert JAVA_TRUST_STORE.startswith(f"{TRUST_DIR}/")


def test_all_of_them_are_reserved():
    assert set(agent_environment(PROXY)) == RESERVED


def test_only_loopback_is_reached_without_the_proxy():
    assert agent_environment(PROXY)["no_proxy"] == "localhost,127.0.0.1,::1"
