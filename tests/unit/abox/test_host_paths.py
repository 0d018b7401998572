# ruff: noqa: S108 - the paths are data here, nothing is written to them
"""Shared folders: a project folder passes, whatever gives the host away doesn't."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.host_paths import CLOSED, check_source, check_target
from abox.refusals import RefusedError


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/srv/project", "/srv/project"),
        ("/srv/project/", "/srv/project"),
        ("//srv//./project", "/srv/project"),
        ("/home/user/project", "/home/user/project"),
        ("/root/project", "/root/project"),
        ("/tmp/x", "/tmp/x"),
        ("/var/www", "/var/www"),
        ("/etcetera", "/etcetera"),
        ("/srv/.hidden", "/srv/.hidden"),
    ],
)
def test_a_project_folder_may_be_shared(path: str, normal: str) -> None:
    assert check_source(path) == normal


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/.",
        "/root",
        "/home",
        "/home/user",
        "/home/user/",
        "/root/.ssh",
        "/tmp",
        "/home/user/.aws",
        "/home/user/project/.git/hooks",
        "/home/.ecryptfs",
        "/var",
        "/var/lib",
        "/var/run/docker.sock",
        "/run/docker.sock",
        "//run/docker.sock",
        "/run",
        "/run/user/1000",
        "/etc",
        "/etc/ssh",
        "/proc/1/root",
        "/sys",
        "/dev/sda",
        "/var/lib/docker/volumes",
        "/var/lib/abox",
        "/usr/bin",
        "/srv/../etc",
        "srv",
        "",
        "./x",
        "/srv/a:b",
        "/srv/a\nb",
        "/srv/a\x00b",
        "/var/tmp",
    ],
)
def test_what_gives_the_host_away_is_refused(path: str) -> None:
    with pytest.raises(RefusedError) as caught:
        check_source(path)
    assert caught.value.remedy


@given(st.sampled_from(CLOSED), st.text("/.a", max_size=6))
def test_no_spelling_of_a_closed_folder_passes(closed: str, tail: str) -> None:
    for path in (f"/{closed}/{tail}", f"/.{closed}/./{tail}", f"{closed}//{tail}"):
        with pytest.raises(RefusedError):
            check_source(path)


@pytest.mark.parametrize("path", ["/work", "/workspace/data", "/home/agent/.config", "/mnt/x"])
def test_a_place_of_the_user_may_be_covered(path: str) -> None:
    assert check_target(path) == path


@pytest.mark.parametrize(
    "path",
    ["/", "/etc", "/etc/ssl/certs", "/usr", "/proc", "/dev/shm", "/run/x", "work", "/a/../b"],
)
def test_what_the_sandbox_relies_on_may_not_be_covered(path: str) -> None:
    with pytest.raises(RefusedError):
        check_target(path)
