"""Tools as their packages bring them, each with a registry of its kind: nothing is set for them.

The only thing that a tool is told is which registry to ask, as its user would tell it.
"""

from __future__ import annotations

import base64
import io
import tarfile
from dataclasses import dataclass
from pathlib import PurePath

import pytest

from tests.e2e import registries
from tests.e2e.conftest import EVIL
from tests.e2e.registries import GO_MODULE, GROUP, NAME, SAYS, VERSION
from tests.tool_image import NODE_MODULES, PYTHON_FOLDER, tool_image
from tests.world.cables import HOST_SIDE

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

REGISTRY, DENIED = "registry.test", "denied.test"
ADDRESS = "198.51.100.30"
SOON_S = 120
"""Seconds after which a refused tool has given up, on a machine that is very busy."""


@dataclass(frozen=True)
class Tool:
    """What a user types, and what it leads to."""

    name: str
    script: str
    """Lines for bash in an empty folder; ``$URL`` is where the registries are."""
    asks: str
    """Beginning of a target that the origin then was asked for."""
    told: str = "403"
    """What the tool says of a refusal."""


def fetch(name: str, script: str, **more: str) -> Tool:
    """A client that gets one file."""
    return Tool(name, script, "/says.txt", **more)


def python(name: str, code: str, **more: str) -> Tool:
    """A Python client from PyPI that gets one file."""
    script = (
        f"PYTHONPATH={PYTHON_FOLDER} python3 - $URL/says.txt <<'END'\nimport sys\n{code}\nEND\n"
    )
    return fetch(name, script, **more)


def npm_like(name: str, add: str, **more: str) -> Tool:
    """A package manager for npm's registry: it adds a package whose command is then run."""
    return Tool(name, f"{add}\nnode_modules/.bin/{NAME}\n", f"/npm/{NAME}.tgz", **more)


def java(name: str, body: str) -> Tool:
    """A Java program of one file that gets one file."""
    program = (
        "import java.net.*; import java.net.http.*; import javax.net.ssl.*;\n"
        "class Fetch { public static void main(String[] args) throws Exception {\n"
        f"{body}\n}} }}\n"
    )
    return fetch(name, f"cat > Fetch.java <<'END'\n{program}END\njava Fetch.java $URL/says.txt\n")


MAVEN_PROJECT = f"""\
cat > pom.xml <<END
<project><modelVersion>4.0.0</modelVersion>
<parent><groupId>{GROUP}</groupId><artifactId>parent</artifactId><version>{VERSION}</version>
<relativePath/></parent><artifactId>x</artifactId><packaging>pom</packaging>
<repositories><repository><id>central</id><url>$URL/maven</url></repository></repositories>
<pluginRepositories><pluginRepository><id>central</id><url>$URL/maven</url></pluginRepository>
</pluginRepositories><build><extensions><extension><groupId>{GROUP}</groupId>
<artifactId>{NAME}</artifactId><version>{VERSION}</version></extension></extensions></build>
</project>
END
mvn -B -q -Dmaven.repo.local=$PWD/kept validate
unzip -p kept/{GROUP.replace(".", "/")}/{NAME}/{VERSION}/{NAME}-{VERSION}.jar says.txt
"""

GRADLE_PROJECT = f"""\
cat > build.gradle <<END
repositories {{ maven {{ url '$URL/maven' }} }}
configurations {{ wanted }}
dependencies {{ wanted '{GROUP}:{NAME}:{VERSION}' }}
task fetch {{ doLast {{ copy {{ from configurations.wanted; into 'lib' }} }} }}
END
gradle -q --no-daemon -g $PWD/home fetch
unzip -p lib/{NAME}-{VERSION}.jar says.txt
"""

APT_SOURCE = f"""\
mkdir -p state/lists/partial cache/archives/partial
echo "deb [trusted=yes] $URL/apt ./" > list
set -- -o Dir::State=$PWD/state -o Dir::Cache=$PWD/cache -o Dir::Etc::SourceList=$PWD/list
set -- "$@" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::status=/var/lib/dpkg/status
apt-get -q "$@" update
apt-get -q "$@" download {NAME}
dpkg-deb -x {NAME}_*.deb tree
cat tree/usr/share/{NAME}
"""

COMPOSER_PROJECT = f"""\
cat > composer.json <<END
{{"repositories": [{{"type": "composer", "url": "$URL/composer"}}, {{"packagist.org": false}}]}}
END
composer require -q --no-interaction abxt/{NAME}:{VERSION}
cat vendor/abxt/{NAME}/says.txt
"""

TOOLS = [
    Tool(
        "git",
        f"git clone -q $URL/{NAME}.git\ncat {NAME}/says.txt\ncd {NAME}\ngit checkout -q -b more\n"
        "git commit -q --allow-empty -m More\ngit push -q origin more\n",
        f"/{NAME}.git/git-receive-pack",
    ),
    fetch("curl", "curl -fsS $URL/says.txt"),
    fetch("wget", "wget -nv -O- $URL/says.txt", told="Forbidden"),
    Tool(
        "pip",
        f"pip install -q --no-cache-dir --target lib --index-url $URL/simple/ {NAME}\n"
        f"PYTHONPATH=lib python3 -c 'import {NAME}; {NAME}.main()'\n",
        f"/simple/{NAME}/{NAME}-",
    ),
    python("requests", "import requests\nprint(requests.get(sys.argv[1], timeout=20).text)"),
    python("httpx", "import httpx\nprint(httpx.get(sys.argv[1]).text)"),
    python(
        "aiohttp",
        "import aiohttp, asyncio\nasync def main():\n"
        "    async with aiohttp.ClientSession(trust_env=True) as session:\n"
        "        async with session.get(sys.argv[1]) as answer:\n"
        "            print(await answer.text())\nasyncio.run(main())",
    ),
    fetch("node-fetch", "node -e \"fetch('$URL/says.txt').then(r => r.text()).then(console.log)\""),
    npm_like("npm", f"npm install --registry $URL/npm/ {NAME}"),
    npm_like(
        "yarn-classic",
        f"node {NODE_MODULES}/yarn-classic/bin/yarn.js add --registry $URL/npm/ {NAME}",
    ),
    npm_like(
        "yarn-berry",
        "echo '{}' > package.json\ntouch yarn.lock\n"
        "export YARN_NPM_REGISTRY_SERVER=$URL/npm YARN_NODE_LINKER=node-modules\n"
        f"node {NODE_MODULES}/yarn-berry/bin/yarn.js add {NAME}",
    ),
    npm_like(
        "pnpm-10", f"node {NODE_MODULES}/pnpm-10/bin/pnpm.cjs add --registry $URL/npm/ {NAME}"
    ),
    npm_like(
        "pnpm",
        "export PNPM_CONFIG_FETCH_RETRIES=0\n"  # else it tries again for 70 s when it is refused
        f"{NODE_MODULES}/@pnpm/exe.linux-x64/pnpm add --registry $URL/npm/ {NAME}",
        told="tunnel error",
    ),
    npm_like("bun", f"{NODE_MODULES}/@oven/bun-linux-x64/bin/bun add --registry $URL/npm/ {NAME}"),
    fetch(
        "deno",
        f"{NODE_MODULES}/@deno/linux-x64-glibc/deno eval "
        "\"console.log(await (await fetch('$URL/says.txt')).text())\"",
        told="unsuccessful tunnel",
    ),
    Tool(
        "cargo",
        f"cargo install -q --root . --index sparse+$URL/crates/ {NAME}\nbin/{NAME}\n",
        f"/crates/dl/{NAME}/",
    ),
    Tool(
        "go",
        "export GOPROXY=$URL/go GONOSUMDB='*' GOBIN=$PWD GOMODCACHE=$PWD/kept GOFLAGS=-modcacherw\n"
        f"go install {GO_MODULE}@v{VERSION}\n./{NAME} 2>&1\n",
        f"/go/{GO_MODULE}/@v/v{VERSION}.zip",
        told="Forbidden",
    ),
    Tool(
        "gh",
        "export GH_HOST=${URL#https://} GH_ENTERPRISE_TOKEN=x\ngh api /says\n",
        "/api/v3/says",
        told="Forbidden",
    ),
    java(
        "java-httpclient",
        "var request = HttpRequest.newBuilder(URI.create(args[0])).build();\n"
        "var kept = HttpResponse.BodyHandlers.ofString();\n"
        "System.out.println(HttpClient.newHttpClient().send(request, kept).body());",
    ),
    java(
        "java-urlconnection",
        "var connection = (HttpsURLConnection) new URL(args[0]).openConnection();\n"
        "connection.getInputStream().transferTo(System.out);",
    ),
    Tool("maven", MAVEN_PROJECT, f"/maven/{GROUP.replace('.', '/')}/{NAME}/{VERSION}/{NAME}-"),
    Tool("gradle", GRADLE_PROJECT, f"/maven/{GROUP.replace('.', '/')}/{NAME}/{VERSION}/{NAME}-"),
    Tool("apt", APT_SOURCE, f"/apt/./{NAME}_"),
    fetch("ruby", "ruby -ropen-uri -e 'puts URI.open(ARGV[0]).read' $URL/says.txt"),
    Tool(
        "gem",
        "export GEM_PATH=$PWD\ngem install -q --no-document --install-dir . --bindir . "
        f"--clear-sources --source $URL/gems {NAME}\n./{NAME}\n",
        f"/gems/gems/{NAME}-",
    ),
    fetch(
        "php",
        "php -r '$c = curl_init($argv[1]); "
        "if (!curl_exec($c)) { fwrite(STDERR, curl_error($c)); exit(1); }' $URL/says.txt",
    ),
    Tool("composer", COMPOSER_PROJECT, f"/composer/{NAME}.zip"),
    fetch("perl", "GET $URL/says.txt"),
    fetch("mercurial", "hg debugdownload $URL/says.txt"),
    fetch(
        "chromium",
        "set -- --headless --no-sandbox --disable-dev-shm-usage --user-data-dir=$PWD/profile\n"
        'chromium "$@" --dump-dom $URL/says.txt | grep .\n',  # its exit code says nothing
        told="ERR_TUNNEL_CONNECTION_FAILED",
    ),
    Tool(
        "skopeo",
        f"skopeo copy -q docker://${{URL#https://}}/{NAME}:{VERSION} dir:image\n"
        "tar -xzO says.txt -f image/$(jq -r '.layers[0].digest[7:]' image/manifest.json)\n",
        f"/v2/{NAME}/blobs/",
        told="Forbidden",
    ),
]


IGNORANT = [
    python(
        "aiohttp",
        "import aiohttp, asyncio\nasync def main():\n"
        "    async with aiohttp.ClientSession() as session:\n"
        "        async with session.get(sys.argv[1]) as answer:\n"
        "            print(await answer.text())\nasyncio.run(main())",
        told="Connect call failed",
    ),
    python(
        "urllib3",
        "import urllib3\nprint(urllib3.request('GET', sys.argv[1]).data.decode())",
        told="Connection refused",
    ),
    fetch(
        "php-streams",
        "php -r '$got = file_get_contents($argv[1]); if ($got === false) exit(1); echo $got;' "
        "$URL/says.txt",
        told="Connection refused",
    ),
]
"""What reads no proxy variable: the README names each, and what its user can do."""


@pytest.fixture(scope="module")
def workbench(make_sandbox):
    """A sandbox whose image has all the tools."""
    sandbox = make_sandbox("t")
    sandbox.up(
        {
            "allow": [REGISTRY],
            "allow_private_cidrs": ["198.51.100.0/24"],
            "agent": {"image": tool_image(), "memory_mb": 3072},
        }
    )
    yield sandbox
    sandbox.down()


@pytest.fixture(scope="module")
def shelf(workbench, tmp_path_factory):
    """A folder with a registry of every kind."""
    folder, url = tmp_path_factory.mktemp("shelf"), f"https://{REGISTRY}"
    (folder / "says.txt").write_text(f"{SAYS}\n")
    (folder / "api" / "v3").mkdir(parents=True)
    (folder / "api" / "v3" / "says").write_text(f'"{SAYS}"')
    for lay_at in (registries.lay_npm, registries.lay_cargo, registries.lay_composer):
        lay_at(folder, url)
    for lay in (
        registries.lay_pypi,
        registries.lay_go,
        registries.lay_maven,
        registries.lay_apt,
        registries.lay_oci,
        registries.lay_git,
    ):
        lay(folder)
    made = run(workbench, registries.GEM_SCRIPT)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(made.stdout))) as archive:
        for member in archive:
            taken = archive.extractfile(member)
            if taken is not None and not {"/", ".."} & {*PurePath(member.name).parts}:
                (folder / member.name).parent.mkdir(parents=True, exist_ok=True)
                (folder / member.name).write_bytes(taken.read())
    return folder


def run(sandbox, script, url=f"https://{REGISTRY}", timeout_s=240.0):
    """Run a script in the agent, in a new folder."""
    lines = f"set -eu -o pipefail\nURL={url}\ncd $(mktemp -d)\n{script}"
    return sandbox.exec(["bash", "-c", lines], timeout_s=timeout_s)


@pytest.fixture
def open_registry(shelf, world, workbench):
    """The same registries at an allowed and at a denied name."""
    world.dns.set({REGISTRY: [ADDRESS], DENIED: [EVIL]})
    for address in (ADDRESS, EVIL):
        world.origin(at=f"{address}:443", speaks="https", answer={"folder": str(shelf)})
    world.watch_pod(workbench.pid("pause"))
    return world


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_tool_9_a_refused_tool_says_so_soon(workbench, open_registry, tool):
    """TOOL-9: at a name off the list, no packet leaves and the tool doesn't hang."""
    refused = run(workbench, tool.script, url=f"https://{DENIED}", timeout_s=SOON_S)
    assert refused.code != 0, refused.stdout
    assert SAYS not in refused.stdout
    assert tool.told in refused.stdout + refused.stderr
    assert open_registry.attempts(EVIL) == []
    assert open_registry.dns.queries(DENIED) == 0


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_tool_7_a_tool_works_without_a_setting(workbench, open_registry, tool):
    """TOOL-7: proxy and trust are found, and the origin gets the pod's request over TLS."""
    done = run(workbench, tool.script)
    assert done.code == 0, done.stdout + done.stderr
    assert SAYS in done.stdout
    requests = open_registry.requests()
    assert [r for r in requests if r["target"].startswith(tool.asks) and r["tls"]], requests
    assert {r["host"] for r in requests} == {REGISTRY}
    assert {c["peer"] for c in open_registry.connections()} == {HOST_SIDE}
    assert open_registry.attempts(ADDRESS, 443) != []


@pytest.mark.parametrize("tool", IGNORANT, ids=lambda tool: tool.name)
def test_tool_10_what_ignores_the_proxy_is_refused_at_once(workbench, open_registry, tool):
    """TOOL-10: without the proxy not even an allowed name is reached, and nothing hangs."""
    refused = run(workbench, tool.script, timeout_s=SOON_S)
    assert refused.code != 0, refused.stdout
    assert tool.told in refused.stdout + refused.stderr
    assert open_registry.attempts(ADDRESS) == []
    assert run(workbench, "curl -fsS $URL/says.txt").stdout == f"{SAYS}\n"
