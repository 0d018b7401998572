"""Which CLI is used, and how a built one gets into a checkout."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from toolchain import pulumi_cli
from toolchain.layout import this_checkout


def fake_cli(folder: Path, version: str, *, language_host: bool = True) -> Path:
    """A `pulumi` that only knows its version."""
    folder.mkdir(parents=True, exist_ok=True)
    pulumi_cli.write_executable(folder / "pulumi", f"#!/bin/sh\necho {version}\n")
    if language_host:
        pulumi_cli.write_executable(folder / "pulumi-language-python", "#!/bin/sh\n")
    return folder


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v3.274.1\n", (3, 274, 1)),
        ("3.231.0-alpha.1", (3, 231, 0)),
        ("", None),
        ("pulumi", None),
        ("v3.2", None),
    ],
)
def test_version_is_parsed(text: str, version: tuple[int, ...] | None) -> None:
    """What `pulumi version` prints, with or without suffix."""
    assert pulumi_cli.parse_version(text) == version


def test_users_own_cli_is_used_as_it_is(tmp_path: Path) -> None:
    """A recent enough `pulumi` with its language host on PATH is taken."""
    folder = fake_cli(tmp_path / "own", "v3.231.0")
    found = pulumi_cli.find_official(f"/nonexistent:{folder}")
    assert found == pulumi_cli.Cli(folder / "pulumi", "3.231.0", official=True)


def test_language_host_may_lie_elsewhere_on_path(tmp_path: Path) -> None:
    """CLI and language host needn't share a folder."""
    cli = fake_cli(tmp_path / "own", "v3.300.0", language_host=False)
    assert pulumi_cli.find_official(str(cli)) is None
    other = fake_cli(tmp_path / "other", "v1.0.0")
    assert pulumi_cli.find_official(f"{cli}:{other}") is not None


@pytest.mark.parametrize("version", ["v3.230.9", "v2.999.0", "unknown", ""])
def test_unusable_cli_is_passed_over(tmp_path: Path, version: str) -> None:
    """One that is too old, or doesn't say its version, isn't used."""
    assert pulumi_cli.find_official(str(fake_cli(tmp_path, version))) is None


def test_cli_of_a_checkout_is_not_the_users(tmp_path: Path) -> None:
    """With `eval "$(make -s env)"` in force, our own build isn't mistaken for an official one."""
    folder = fake_cli(tmp_path / "clone" / ".abox" / "bin", "v3.274.1")
    assert pulumi_cli.find_official(str(folder)) is None


def test_script_appears_whole_and_executable(tmp_path: Path) -> None:
    """A script is replaced in one move, with mode 0755."""
    path = tmp_path / "script"
    for text in ("one", "two"):
        pulumi_cli.write_executable(path, text)
        assert path.read_text() == text
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert list(tmp_path.iterdir()) == [path]


def test_launcher_is_valid_python_for_any_folder() -> None:
    """The launcher runs the sources of its checkout, whatever the path holds."""
    text = pulumi_cli.LAUNCHER.format(python="/v/bin/python", root='/it\'s\n"here"')
    compile(text, "launcher", "exec")
    assert text.startswith("#!/v/bin/python\n")


def test_flags_set_no_version_of_their_own() -> None:
    """The version stands in go.mod alone."""
    source = Path(pulumi_cli.__file__).read_text()
    assert this_checkout().pulumi_version not in source
