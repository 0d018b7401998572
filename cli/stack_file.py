"""A stack's settings file: read as settings, and edited so that only the edited lines change.

Lists written one entry a line are edited as text, so every other byte of the file stays what the
user wrote. Lists in another form (`[a, b]`, empty, missing) are edited by the YAML library, which
keeps comments and order. Either way the result is read again and compared with what was meant.
"""

import io
import os
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.util import load_yaml_guess_indent

from abox.errors import HostError, SettingsError
from abox.injection import SECRETS_KEY
from abox.settings import Settings, clear_secrets, parse_settings
from cli.checkout import Checkout, unknown_stack

SETTINGS_KEY = "abox:sandbox"
"""Key of the stack's configuration that holds the sandbox's settings."""

CIPHER = "secure"
"""Key under which Pulumi writes an encrypted value."""

ListKey = Literal["allow", "deny"]
"""The two lists that commands edit."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def read_text(checkout: Checkout, stack: str) -> str:
    """Content of a stack's settings file.

    Raises:
        SettingsError: there is no such stack, or the file can't be read.
    """
    file = checkout.stack_file(stack)
    if stack not in checkout.stacks():
        raise unknown_stack(stack, checkout.stacks())
    try:
        return file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            what=f"{shown(file)} can't be read",
            why=str(error),
            remedy="see that it is a text file in UTF-8 that you may read",
        ) from error


def read_settings(checkout: Checkout, stack: str) -> Settings:
    """Settings of a stack, judged completely.

    Raises:
        AboxError: there is no such stack, or its settings are refused.
    """
    return settings_of(read_text(checkout, stack), checkout, stack)


def settings_of(text: str, checkout: Checkout, stack: str) -> Settings:
    """Settings in the text of a stack's file.

    Raises:
        AboxError: the text is no YAML, or the settings in it are refused.
    """
    raw = raw_settings(text, shown(checkout.stack_file(stack)))
    return parse_settings(stack, raw, secret_names=secret_names(text, stack))


def secret_names(text: str, stack: str) -> Collection[str] | None:
    """Names below `abox:secrets`, whose values this command can't read; None if all is one cipher.

    Raises:
        SettingsError: a value stands in the file in the clear.
    """
    secrets = _config(text).get(SECRETS_KEY) or {}
    if not isinstance(secrets, dict) or set(secrets) == {CIPHER}:
        return None
    clear = [name for name, value in secrets.items() if not _is_cipher(value)]
    if clear:
        raise clear_secrets(stack, clear)
    return list(secrets)


def _is_cipher(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {CIPHER}


def _config(text: str) -> Mapping[str, Any]:
    """The stack's configuration, as far as the text is one."""
    document = yaml.safe_load(text)
    config = document.get("config") if isinstance(document, dict) else None
    return config if isinstance(config, dict) else {}


def shown(file: Path) -> str:
    """A settings file as messages name it: its folder and its name."""
    return f"{file.parent.name}/{file.name}"


def raw_settings(text: str, name: str) -> Mapping[str, Any]:
    """The sandbox's settings as plain data; empty if the file has none.

    Raises:
        SettingsError: the text is no YAML mapping of the form that Pulumi wants.
    """
    try:
        document = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        where = f", line {place.line + 1}" if place is not None else ""
        raise SettingsError(
            what=f"{name}{where}: this is no YAML",
            why=str(getattr(error, "problem", None) or "it can't be parsed"),
            remedy="correct that line",
        ) from error
    config = document.get("config") or {} if isinstance(document, dict) else None
    settings = config.get(SETTINGS_KEY) or {} if isinstance(config, dict) else None
    if not isinstance(settings, dict):
        raise SettingsError(
            what=f"{name}: config.{SETTINGS_KEY} is no mapping",
            why="the sandbox's settings are keys and values below that key",
            remedy=f"write `config:`, below it `{SETTINGS_KEY}:`, below that the settings",
        )
    return settings


def append_entries(text: str, key: ListKey, values: Sequence[Any]) -> str:
    """The text with more entries at the end of a list."""
    settings = _editable(text)[1]
    sequence = settings.get(key)
    if _is_block(sequence):
        edited = _append_lines(text, settings, key, values)
    else:
        edited = _append_by_library(text, key, values)
    return _proven(text, edited, key, [*_plain_list(text, key), *values])


def remove_entry(text: str, key: ListKey, index: int) -> str:
    """The text without the entry at a position of a list."""
    sequence = _editable(text)[1].get(key)
    if _is_block(sequence) and len(sequence) > 1:
        edited = _remove_lines(text, sequence, index)
    else:
        edited = _remove_by_library(text, key, index)
    rest = _plain_list(text, key)
    del rest[index]
    return _proven(text, edited, key, rest)


def write_atomically(file: Path, text: str) -> None:
    """Replace a file's content in one step; a reader sees the old or the new, never a part.

    Raises:
        HostError: the folder can't be written; the file is as it was.
    """
    target = file.resolve()
    try:
        mode = target.stat()
        number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(number, "wb") as output:
                output.write(text.encode())
                output.flush()
                os.fchmod(output.fileno(), mode.st_mode & 0o7777)
                if os.geteuid() == 0:
                    os.fchown(output.fileno(), mode.st_uid, mode.st_gid)
                os.fsync(output.fileno())
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise HostError(
            what=f"{shown(file)} can't be written",
            why=str(error),
            remedy="see that the folder can be written and the disk isn't full; "
            "the file is as it was",
        ) from error


def _editable(text: str) -> tuple[CommentedMap, CommentedMap]:
    """The document and the sandbox's settings in it, with comments; missing keys are made."""
    document = _library().load(text)
    if document is None:
        document = CommentedMap()
    config = document.setdefault("config", CommentedMap())
    if config is None:
        config = document["config"] = CommentedMap()
    if config.get(SETTINGS_KEY) is None:
        config[SETTINGS_KEY] = CommentedMap()
    return document, config[SETTINGS_KEY]


def _library(text: str = "") -> YAML:
    """The YAML library, set to write as the text is written."""
    library = YAML()
    library.preserve_quotes = True
    library.width = 4096
    if text:
        _, indent, offset = load_yaml_guess_indent(text)
        # Without a list in the text there is nothing to guess from.
        library.indent(mapping=2, sequence=indent or 4, offset=2 if offset is None else offset)
    return library


def _is_block(sequence: Any) -> bool:
    """Whether a list is written one entry a line."""
    return (
        isinstance(sequence, CommentedSeq)
        and len(sequence) > 0
        and not sequence.fa.flow_style()
        and sequence.anchor.value is None
    )


def _append_lines(text: str, settings: CommentedMap, key: ListKey, values: Sequence[Any]) -> str:
    """Write more lines below the last entry of a list."""
    sequence = settings[key]
    lines = text.splitlines(keepends=True)
    first_line, first_column = sequence.lc.item(0)
    indent = lines[first_line][: lines[first_line].index("-")]
    end = _end_of_item(lines, sequence, len(sequence) - 1)
    newline = "\r\n" if lines[0].endswith("\r\n") else "\n"
    if not lines[end - 1].endswith("\n"):
        lines[end - 1] += newline
    gap = " " * (first_column - len(indent) - 1)
    lines[end:end] = [f"{indent}-{gap}{scalar(value)}{newline}" for value in values]
    return "".join(lines)


def _remove_lines(text: str, sequence: CommentedSeq, index: int) -> str:
    """Take out the lines of one entry; comments above the next one stay."""
    lines = text.splitlines(keepends=True)
    start = sequence.lc.item(index)[0]
    del lines[start : _end_of_item(lines, sequence, index)]
    return "".join(lines)


def _end_of_item(lines: list[str], sequence: CommentedSeq, index: int) -> int:
    """Number of the line after an entry's last line of content."""
    start, column = (int(number) for number in sequence.lc.item(index))
    end = start + 1
    for number in range(start + 1, len(lines)):
        line = lines[number]
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        if len(line) - len(line.lstrip()) < column:
            break
        end = number + 1
    return end


def _append_by_library(text: str, key: ListKey, values: Sequence[Any]) -> str:
    """Append to a list that is empty, missing, or written in brackets."""
    document, settings = _editable(text)
    sequence = settings.get(key)
    if not isinstance(sequence, CommentedSeq):
        sequence = settings[key] = CommentedSeq()
    sequence.extend(values)
    return _dump(document, text)


def _remove_by_library(text: str, key: ListKey, index: int) -> str:
    """Remove from a list in brackets, or the last entry of any list."""
    document, settings = _editable(text)
    sequence = settings[key]
    del sequence[index]
    if not sequence:
        settings[key] = CommentedSeq()
        settings[key].fa.set_flow_style()
    return _dump(document, text)


def _dump(document: CommentedMap, text: str) -> str:
    """A document as text, in the manner of the text that it was."""
    stream = io.StringIO()
    _library(text).dump(document, stream)
    return stream.getvalue()


def scalar(value: Any) -> str:
    """An entry on one line: a name as it is, quoted where YAML would read something else."""
    if not isinstance(value, str):
        return str(yaml.safe_dump(value, default_flow_style=True, width=1_000_000)).strip()
    plain = _PLAIN.fullmatch(value) is not None and yaml.safe_load(value) == value
    if plain:
        return value
    return str(yaml.safe_dump(value, default_style='"', width=1_000_000)).strip()


def _plain_list(text: str, key: ListKey) -> list[Any]:
    """A list's entries as plain data."""
    return list(raw_settings(text, "").get(key) or [])


def _proven(before: str, after: str, key: ListKey, wanted: list[Any]) -> str:
    """The edited text, once it is seen to differ from the old one by the list alone.

    Raises:
        SettingsError: the file is written in a way that the edit can't keep.
    """
    expected = yaml.safe_load(before) or {}
    expected.setdefault("config", {})
    expected["config"] = expected["config"] or {}
    expected["config"][SETTINGS_KEY] = {**(expected["config"].get(SETTINGS_KEY) or {}), key: wanted}
    try:
        found = yaml.safe_load(after)
    except yaml.YAMLError:
        found = None
    if found != expected:
        raise SettingsError(
            what=f"the list `{key}` can't be edited by this command",
            why="it is written in a form (anchors, or several entries on a line) that an edit "
            "would not keep",
            remedy="edit the file by hand, then run `pulumi up`",
        )
    return after
