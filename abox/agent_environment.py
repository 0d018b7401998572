"""Environment of the agent: proxy and trust store in every spelling that tools read.

The agent's user sets nothing: each variable below is the switch of at least one common tool that
ignores the system-wide setting or has a trust store of its own.
"""

from __future__ import annotations

TRUST_DIR = "/etc/ssl/certs"
"""Where the trust volume is mounted in the agent: the place where Debian and Alpine look."""

BUNDLE = f"{TRUST_DIR}/ca-certificates.crt"
"""Public roots and the sandbox's own CA in one PEM file."""

SANDBOX_CA = f"{TRUST_DIR}/abox-ca.pem"
"""The sandbox's own CA alone, for tools that add it to a built-in list."""

JAVA_TRUST_STORE = f"{TRUST_DIR}/java/cacerts"
"""The same certificates as in the bundle in Java's form, where Debian's Java looks."""

BROWSER_POLICY = f"{TRUST_DIR}/abox-browser-policy.json"
"""The sandbox's own CA as browsers of Chromium's family want it: in a policy of their machine."""

NO_PROXY = "localhost,127.0.0.1,::1"
"""Only the agent's own loopback is reached without the proxy."""

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY")
"""Set in upper and lower case; curl reads only the lower-case ``http_proxy``."""

TOOL_PROXY_VARIABLES = (
    "YARN_HTTPS_PROXY",  # yarn 2 and later
    "YARN_HTTP_PROXY",
)
"""For tools that read none of those; each takes the proxy's URL."""

BUNDLE_VARIABLES = (
    "SSL_CERT_FILE",  # OpenSSL, Python ssl, Go, Ruby, uv, rustls-native-certs
    "REQUESTS_CA_BUNDLE",  # Python requests
    "CURL_CA_BUNDLE",  # curl
    "GIT_SSL_CAINFO",  # git
    "PIP_CERT",  # pip
    "CARGO_HTTP_CAINFO",  # cargo
    "AWS_CA_BUNDLE",  # AWS command line and SDKs
    "NPM_CONFIG_CAFILE",  # npm, pnpm
    "YARN_HTTPS_CA_FILE_PATH",  # yarn 2 and later
    "DENO_CERT",  # Deno
    "BUNDLE_SSL_CA_CERT",  # Ruby's bundler
    "COMPOSER_CAFILE",  # PHP's composer
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",  # gRPC
    "HTTPLIB2_CA_CERTS",  # httplib2
    "NIX_SSL_CERT_FILE",  # Nix
    "CONDA_SSL_VERIFY",  # conda
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",  # Google Cloud command line
    "HEX_CACERTS_PATH",  # Elixir's hex
    "PERL_LWP_SSL_CA_FILE",  # Perl's LWP
)
"""Each takes the path of a bundle that replaces the tool's own list."""

RESERVED = frozenset(
    [
        *(name for upper in PROXY_VARIABLES for name in (upper, upper.lower())),
        *TOOL_PROXY_VARIABLES,
        *BUNDLE_VARIABLES,
        "NO_PROXY",
        "no_proxy",
        "JAVA_TOOL_OPTIONS",
        "NODE_EXTRA_CA_CERTS",
        "NODE_USE_ENV_PROXY",
        "PERL_LWP_ENV_PROXY",
        "SSL_CERT_DIR",
    ]
)
"""Names that the user's own ``agent.env`` may not set: they are what makes the sandbox work."""


def agent_environment(proxy_url: str) -> dict[str, str]:
    """Variables that point every common tool at the proxy and at the trust store.

    Args:
        proxy_url: the forward proxy, for example ``http://10.10.0.2:8080``.
    Returns: names and values, sorted by name.
    """
    variables = {name: BUNDLE for name in BUNDLE_VARIABLES}
    for upper in PROXY_VARIABLES:
        variables[upper] = variables[upper.lower()] = proxy_url
    variables.update(dict.fromkeys(TOOL_PROXY_VARIABLES, proxy_url))
    variables["NO_PROXY"] = variables["no_proxy"] = NO_PROXY
    variables["JAVA_TOOL_OPTIONS"] = java_options(proxy_url)
    variables["NODE_EXTRA_CA_CERTS"] = SANDBOX_CA
    variables["NODE_USE_ENV_PROXY"] = "1"
    variables["PERL_LWP_ENV_PROXY"] = "1"
    variables["SSL_CERT_DIR"] = TRUST_DIR
    return dict(sorted(variables.items()))


def java_options(proxy_url: str) -> str:
    """Options for every Java virtual machine, which reads no proxy variable.

    Loopback is reached without the proxy: that is Java's own default.

    Args:
        proxy_url: the forward proxy, for example ``http://10.10.0.2:8080``.
    """
    host, _, port = proxy_url.removeprefix("http://").rpartition(":")
    properties = {
        "http.proxyHost": host,
        "http.proxyPort": port,
        "https.proxyHost": host,
        "https.proxyPort": port,
        "javax.net.ssl.trustStore": JAVA_TRUST_STORE,
        # Maven 3.9 heeds the other four only with this one.
        "aether.connector.http.useSystemProperties": "true",
    }
    return " ".join(f"-D{name}={value}" for name, value in properties.items())
