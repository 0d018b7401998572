"""What a long installation says about itself."""

from __future__ import annotations

import pytest

from images.progress import PackageCounter, Progress

FETCHED = "Get:{} http://mirror.test/debian bookworm/main amd64 pkg{} amd64 1.0 [12.3 kB]"


def counted(lines: list[str]) -> str:
    counter = PackageCounter()
    for line in lines:
        counter.see(line)
    return counter.describe()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "downloading packages, 0"),
        (
            ["Get:1 http://mirror.test/debian bookworm InRelease [151 kB]"],
            "downloading packages, 0",
        ),
        (
            ["Get:2 http://mirror.test/debian bookworm/main amd64 Packages [8790 kB]"],
            "downloading packages, 0",
        ),
        (
            ["0 upgraded, 69 newly installed, 0 to remove.", FETCHED.format(1, 1)],
            "downloading packages, 1 of 69",
        ),
        (
            ["0 upgraded, 2 newly installed,", "Unpacking a (1) ...", "Setting up a (1) ..."],
            "setting up packages, 1 of 2",
        ),
        (
            ["0 upgraded, 2 newly installed,", "Setting up a (1) ...", "1 newly installed"],
            "setting up packages, 1 of 3",
        ),
        (["Setting up a (1) ...", "Unpacking b (1) ..."], "unpacking packages, 1"),
    ],
    ids=["start", "release", "index", "fetched", "set up", "second round", "unpacking again"],
)
def test_count_follows_apt(lines: list[str], said: str) -> None:
    """Only packages are counted, and the step is the one that is going on."""
    assert counted(lines) == said


def test_lines_name_image_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    """A reader sees which image, what, and since when."""
    progress = Progress("agent")
    progress.say("doing it")
    progress.say_sometimes("too soon to say")
    assert capsys.readouterr().out == "images: agent: doing it (0 s)\n"
