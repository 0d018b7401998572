"""The Docker stand-in, on a real engine, makes, reads, changes and deletes as recorded.

Answers are compared whole: names, addresses and ids of the recording are first replaced by those
of the test.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests import host
from tests.integration.toolchain.conftest import PREFIX
from tests.recordings import (
    CallFailedError,
    Document,
    Recording,
    all_recordings,
    ask,
    differences,
    recording,
)
from toolchain.plugins.docker.provider import DockerProvider

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]

NET, OTHER_NET, BOX, VOLUME = (f"{PREFIX}{name}" for name in ("net", "othernet", "c", "vol"))
RECORDED_IMAGE = "sha256:cdb37f85812a30b122fb08248b784bb757cfa0cbcd62e0eb27f120bd5dcade4f"
RECORDED_TAGGED = "sha256:f599f7019eb76fef2ed7a875b2b760a52c94ca56c7a41ec80c7c69c598bd820e"
TAG = "abxt/busybox:latest"


@pytest.fixture
def plugin() -> DockerProvider:
    """The stand-in, configured by default."""
    return DockerProvider()


class Replay:
    """Puts recordings to the stand-in under the test's own names."""

    def __init__(self, plugin: DockerProvider, image: str) -> None:
        self.plugin = plugin
        self.names = {
            "br-off0": "abxtw0",
            "offnet": NET,
            "othernet": OTHER_NET,
            "offc": BOX,
            "offx": f"{BOX}-x",
            "offvol": VOLUME,
            "official/bb:1": TAG,
            "official/absent:9": "127.0.0.1:9/absent:9",
            "10.213.7.": "10.213.97.",
            "10.213.8.": "10.213.98.",
            "02:42:0a:d5:07:": "02:42:0a:d5:61:",
            "02:42:0a:d5:08:": "02:42:0a:d5:62:",
            RECORDED_IMAGE: image,
            RECORDED_TAGGED: image,
        }

    def call(self, name: str, **replacements: str) -> Recording:
        """A recording with the test's names; ids are given by the caller."""
        return recording(name).spelled({**self.names, **replacements})

    def ask(self, call: Recording) -> Document:
        return ask(self.plugin, call.call, call.request)

    def create(self, name: str) -> str:
        """Create as recorded, compare the answer, and return the new id."""
        call = self.call(name)
        got = self.ask(call)
        assert call.response is not None
        wanted = with_id(call.response, got["id"])
        assert list(differences(wanted, got)) == []
        return str(got["id"])

    def answers_alike(self, name: str, identity: str) -> Document:
        """Put a call about an existing resource, and compare the answer."""
        call = self.call(name)
        got = self.ask(Recording(name, call.call, with_id(call.request, identity), None, None))
        assert list(differences(with_id(call.response or {}, identity), got)) == []
        return got

    def fails_alike(self, name: str) -> CallFailedError:
        """Put a call that failed in the recording, and compare the error's text."""
        call = self.call(name)
        with pytest.raises(CallFailedError) as failed:
            self.ask(call)
        assert any_id(str(failed.value)) == any_id(str(call.error))
        return failed.value


def with_id(document: Document, identity: str) -> Document:
    """A document about another resource of the same kind."""
    changed = dict(document)
    if "id" in changed:
        changed["id"] = identity
    for part in ("properties", "olds", "news"):
        if "id" in changed.get(part, {}):
            changed[part] = {**changed[part], "id": identity}
    return changed


def any_id(text: str) -> str:
    return re.sub(r"[0-9a-f]{64}", "<id>", text)


@pytest.fixture
def replay(plugin: DockerProvider, image: str) -> Replay:
    """Recordings under the test's names."""
    return Replay(plugin, image)


def inspect(name: str) -> Any:
    return json.loads(host.run(["docker", "inspect", name]).stdout)[0]


def test_network_lives_as_recorded(replay: Replay) -> None:
    """Made internal on its own bridge, read back, refused a second time, deleted, gone."""
    identity = replay.create("docker-network-create")
    assert inspect(NET)["Internal"] is True  # it is on the engine, not only in the answer
    replay.answers_alike("docker-network-read", identity)
    replay.fails_alike("docker-network-create-conflict")
    replay.answers_alike("docker-network-delete", identity)
    replay.answers_alike("docker-network-read-gone", identity)
    replay.answers_alike("docker-network-delete", identity)  # deleting what is gone is fine


def test_container_lives_as_recorded(replay: Replay) -> None:
    """Made, read running and stopped, started again by an update, refused twice, deleted, gone."""
    replay.create("docker-network-create")
    identity = replay.create("docker-container-create")
    live = inspect(BOX)
    assert live["HostConfig"]["CapDrop"] == ["ALL"]
    assert live["HostConfig"]["ReadonlyRootfs"] is True
    assert live["HostConfig"]["Memory"] == 64 * 1024 * 1024
    assert live["NetworkSettings"]["Networks"].keys() == {NET}
    assert live["State"]["Running"] is True

    replay.answers_alike("docker-container-read", identity)
    replay.fails_alike("docker-container-create-conflict")
    host.run(["docker", "stop", BOX])
    replay.answers_alike("docker-container-read-stopped", identity)
    replay.answers_alike("docker-container-update-mustrun", identity)
    assert inspect(BOX)["State"]["Running"] is True

    replay.answers_alike("docker-container-delete", identity)
    assert host.run(["docker", "inspect", BOX], check=False).code != 0
    replay.answers_alike("docker-container-read-gone", identity)
    replay.answers_alike("docker-container-delete", identity)


def test_container_on_a_second_network_is_read_as_recorded(replay: Replay) -> None:
    """A network that somebody else connected shows in `networkDatas` and nowhere else."""
    replay.create("docker-network-create")
    identity = replay.create("docker-container-create")
    host.run(["docker", "network", "create", "--subnet", "10.213.98.0/24", OTHER_NET])
    host.run(["docker", "network", "connect", OTHER_NET, BOX])
    replay.answers_alike("docker-container-read-2nets", identity)


def test_memory_is_updated_in_place_as_recorded(replay: Replay) -> None:
    """A changed limit is put right without a new container."""
    replay.create("docker-network-create")
    identity = replay.create("docker-container-create")
    host.run(["docker", "update", "--memory", "32m", "--memory-swap", "32m", BOX])
    replay.answers_alike("docker-container-update-memory", identity)
    live = inspect(BOX)
    assert live["Id"] == identity
    assert live["HostConfig"]["Memory"] == 64 * 1024 * 1024


def test_uploads_are_made_as_recorded(replay: Replay) -> None:
    """A file is in place before the container runs."""
    network = replay.create("docker-network-create")
    recorded = "58153947cb35084cccd017c5415a61dc58b1d575d274ee2a153cca0c59a02b5b"
    replay.names[recorded] = network
    replay.create("docker-container-create-uploads")
    assert host.run(["docker", "exec", BOX, "cat", "/etc/conf.txt"]).stdout == "v1"


def test_failed_upload_leaves_a_half_made_container(replay: Replay) -> None:
    """A read-only root refuses it; the container stays, in the state too, not started."""
    replay.create("docker-network-create")
    failed = replay.fails_alike("docker-container-create-failed-upload")
    live = inspect(BOX)
    assert live["State"]["Status"] == "created"
    (detail,) = failed.details
    assert detail.id == live["Id"]
    assert detail.properties["name"] == BOX
    assert list(detail.reasons) == [str(failed)]


def test_volume_lives_as_recorded(replay: Replay) -> None:
    """Its id is its name; labels and driver are read back."""
    identity = replay.create("docker-volume-create")
    assert identity == VOLUME
    assert inspect(VOLUME)["Labels"] == {"k": "v"}
    replay.answers_alike("docker-volume-read", identity)
    replay.answers_alike("docker-volume-delete", identity)
    assert host.run(["docker", "volume", "inspect", VOLUME], check=False).code != 0
    gone = replay.call("docker-volume-read")
    assert replay.ask(gone) == {}
    replay.answers_alike("docker-volume-delete", identity)


def test_image_lives_as_recorded(replay: Replay, image: str) -> None:
    """Found by its tag, its id is made of both; `keepLocally` keeps it."""
    identity = replay.create("docker-remoteImage-create")
    assert identity == f"{image}{TAG}"
    replay.answers_alike("docker-remoteImage-read", identity)
    replay.answers_alike("docker-remoteImage-delete", f"{image}{image}")
    assert host.run(["docker", "image", "inspect", TAG]).code == 0


def test_absent_image_fails_as_recorded(replay: Replay) -> None:
    """The engine is asked to pull; its own words follow the recorded ones."""
    call = replay.call("docker-remoteImage-create-absent")
    with pytest.raises(CallFailedError) as failed:
        replay.ask(call)
    pattern = r"(.*Error response from daemon: Get \"https?://).*\n\n"
    recorded = re.fullmatch(pattern, str(call.error), re.DOTALL)
    got = re.fullmatch(pattern, str(failed.value), re.DOTALL)
    assert recorded is not None
    assert got is not None
    # The engine speaks plain HTTP to a registry on this machine.
    assert got.group(1).replace("http://", "https://") == recorded.group(1)


def test_every_recording_that_touches_the_engine_is_replayed_here() -> None:
    """No recording is left out."""
    text = Path(__file__).read_text()
    touching = {
        call.name
        for call in all_recordings()
        if call.name.startswith("docker-")
        and call.call in ("Create", "Read", "Update", "Delete")
        and not call.preview
    }
    assert touching == {name for name in touching if f'"{name}"' in text}
