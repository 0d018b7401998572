"""Values of the configuration that are refused: why, where, and what to write instead.

A parser of one value raises a ``RefusedError`` and knows nothing of positions; whoever walks the
list adds them. What is wrong with one member in several ways is told in full.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import TypeVar

from abox.errors import AboxError, AboxErrors, PolicyError

Parsed = TypeVar("Parsed")

UNSHOWN: object = object()
"""Value of a refusal that no text may repeat: it may be a secret in the wrong place."""

_SHOWN_MAX = 80


class RefusedError(ValueError):
    """Why a value is refused and what to write instead; the position is added where it is known."""

    def __init__(self, why: str, remedy: str, *, key: str = "", value: object = None) -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy
        self.key = key
        self.value = value


class RefusedErrors(ValueError):
    """Several things wrong with one value."""

    def __init__(self, members: Sequence[RefusedError]) -> None:
        super().__init__("; ".join(member.why for member in members))
        self.members = tuple(members)


class Refusals:
    """Gathers what is wrong with one value, so that one run tells all of it."""

    def __init__(self) -> None:
        self._found: list[RefusedError] = []

    def add(self, refused: RefusedError) -> None:
        """Keep one."""
        self._found.append(refused)

    def attempt(self, step: Callable[[], Parsed]) -> Parsed | None:
        """What the step returns; None, and its refusals kept, if it raises any."""
        try:
            return step()
        except RefusedErrors as several:
            self._found.extend(several.members)
        except RefusedError as refused:
            self._found.append(refused)
        return None

    def raise_all(self) -> None:
        """Raise what was gathered; do nothing if there is nothing."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise RefusedErrors(self._found)


def parse_each(
    raw: Sequence[object],
    path: str,
    parse: Callable[[object], Parsed],
    show: Callable[[object], object] = lambda item: item,
) -> tuple[Parsed, ...]:
    """Parse every item of a list and drop repetitions, order kept.

    Args:
        raw: the items.
        path: where the list stands, for error texts.
        parse: what an item means; raises RefusedError or RefusedErrors.
        show: an item as error texts may repeat it.

    Raises: AboxErrors with one PolicyError for each thing that `parse` refuses.
    """
    parsed: dict[Parsed, None] = {}
    errors: list[AboxError] = []
    for position, item in enumerate(raw):
        try:
            parsed[parse(item)] = None
        except RefusedErrors as several:
            where = f"{path}[{position}]"
            errors += [_locate(refused, where, show(item)) for refused in several.members]
        except RefusedError as refused:
            errors.append(_locate(refused, f"{path}[{position}]", show(item)))
    if errors:
        raise AboxErrors(errors)
    return tuple(parsed)


def shown(value: object) -> str:
    """A value for an error text, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"


def nearest(key: str, valid: Sequence[str]) -> str:
    """The remedy for an unknown key: the nearest valid one, and all of them."""
    close = difflib.get_close_matches(key, valid, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{meant}valid keys: {', '.join(sorted(valid))}"


def _locate(refused: RefusedError, where: str, item: object) -> PolicyError:
    value = item if refused.value is None else refused.value
    told = "" if value is UNSHOWN else f": {shown(value)}"
    what = f"{where}{refused.key}{told} is refused"
    return PolicyError(what=what, why=refused.why, remedy=refused.remedy)
