"""What can go wrong, and how it is told: one line what, one line why, one line what to do.

AboxError                    exit 2
├── SettingsError            exit 2   the stack's configuration is refused
│   └── PolicyError          exit 2   an entry of the allowlist is refused
├── HostError                exit 2   the host lacks something or refuses
├── CheckError               exit 1   a probe from inside the sandbox found something wrong
├── DriftError               exit 7   what stands differs from what was asked
└── AboxErrors               exit of its first error; several errors found in one run
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import ClassVar, Self, TypeVar

Result = TypeVar("Result")


class ExitCode(IntEnum):
    """Exit codes of every command."""

    OK = 0
    CHECK_FAILED = 1
    USAGE = 2
    DRIFT = 7


def printable(text: str) -> str:
    """Text on one line with control characters escaped, so that no value can drive a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class AboxError(Exception):
    """An error that says what happened, why, and what to do about it."""

    exit_code: ClassVar[ExitCode] = ExitCode.USAGE

    def __init__(self, *, what: str, why: str, remedy: str) -> None:
        self.what = printable(what)
        self.why = printable(why)
        self.remedy = printable(remedy)
        super().__init__(self.what, self.why, self.remedy)

    def __str__(self) -> str:
        return f"{self.what}\nwhy: {self.why}\ndo: {self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.why, self.remedy)

    def to_document(self) -> dict[str, str]:
        """The three lines as a JSON object."""
        return {"what": self.what, "why": self.why, "remedy": self.remedy}

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> Self:
        """The error that `to_document` wrote; missing lines read as unknown."""
        what, why, remedy = (str(document.get(k) or "unknown") for k in ("what", "why", "remedy"))
        return cls(what=what, why=why, remedy=remedy)


class SettingsError(AboxError):
    """The stack's configuration is refused."""


class PolicyError(SettingsError):
    """An entry of the allowlist, the denylist or the allowed CIDRs is refused."""


class HostError(AboxError):
    """The host lacks something or refuses something."""


class CheckError(AboxError):
    """A probe from inside the sandbox did not find what was asked."""

    exit_code: ClassVar[ExitCode] = ExitCode.CHECK_FAILED


class DriftError(AboxError):
    """What stands on the host differs from what was asked."""

    exit_code: ClassVar[ExitCode] = ExitCode.DRIFT


class AboxErrors(AboxError):
    """Several errors, found in one run, in the order of the input."""

    def __init__(self, errors: Sequence[AboxError]) -> None:
        if not errors:
            raise ValueError("a group of errors needs at least one error")
        self.errors = tuple(errors)
        first = self.errors[0]
        super().__init__(what=first.what, why=first.why, remedy=first.remedy)
        self.exit_code = first.exit_code  # type: ignore[misc]  # of this group, not of the class

    def __str__(self) -> str:
        return "\n\n".join(str(error) for error in self.errors)

    def __reduce__(self) -> tuple[object, ...]:
        return AboxErrors, (self.errors,)


class ErrorCollector:
    """Gathers the errors of several steps, so that one run tells all of them."""

    def __init__(self) -> None:
        self.errors: list[AboxError] = []

    def attempt(self, step: Callable[[], Result]) -> Result | None:
        """What the step returns; None, and its errors kept, if it raises an AboxError."""
        try:
            return step()
        except AboxErrors as group:
            self.errors.extend(group.errors)
        except AboxError as error:
            self.errors.append(error)
        return None

    def raise_all(self) -> None:
        """Raise what was gathered as one group; do nothing if there is nothing."""
        if self.errors:
            raise AboxErrors(self.errors)


def _rebuild(kind: type[AboxError], what: str, why: str, remedy: str) -> AboxError:
    return kind(what=what, why=why, remedy=remedy)
