"""``python -m tests.cases DIR``: one line a failure, last line ``N passed, N failed``."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from abox.settings import BACKENDS, VM
from tests.cases.model import Case
from tests.cases.outcome import NotRunError
from tests.cases.reader import printable, read_folder
from tests.cases.runner import Runner


@dataclass
class Report:
    """How a run went."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, list[str]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
        """The report for programs."""
        return {
            "passed": self.passed,
            "failed": self.failed,
            "not_run": self.not_run,
            "seconds": self.seconds,
        }


class _TooLongError(Exception):
    pass


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def alarm(_number: int, _frame: FrameType | None) -> None:
        raise _TooLongError(f"no end after {seconds} s")

    signal.signal(signal.SIGALRM, alarm)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def _say(text: str) -> None:
    sys.stdout.write(printable(text) + "\n")
    sys.stdout.flush()


def _run_case(runner: Runner, case: Case, report: Report, *, verbose: bool) -> None:
    start = time.monotonic()
    try:
        with _limited(runner.limit_s(case)):
            faults = runner.run(case)
    except NotRunError as reason:
        report.not_run[case.title] = str(reason)
        if verbose:
            _say(f"not run {case.title}: {reason}")
        return
    except Exception as error:  # noqa: BLE001  # one case must not end the others
        faults = [f"{type(error).__name__}: {error}"]
        runner.recover(case)
    report.seconds[case.title] = round(time.monotonic() - start, 2)
    if faults:
        report.failed[case.title] = faults
        _say(f"FAILED {case.title} ({case.layer}): {'; '.join(faults)}")
    else:
        report.passed.append(case.title)
        if verbose:
            _say(f"passed {case.title} ({report.seconds[case.title]} s)")


def _chosen(cases: list[Case], only: list[str], layers: list[str]) -> list[Case]:
    order = {"config": 0, "policy": 1, "dns": 2, "proxy": 3, "forward": 4, "nwfilter": 5}
    chosen = [
        case
        for case in cases
        if (not only or case.kind in only or case.id in only)
        and (not layers or case.layer in layers)
    ]
    return sorted(chosen, key=lambda case: (case.backend == VM, order.get(case.layer, 6)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.cases", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of case files")
    parser.add_argument("--only", action="append", default=[], help="this kind, or this id")
    parser.add_argument("--layer", action="append", default=[], help="this layer")
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default="",
        help="run on this one alone (default: machines only for the cases that name them)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="name every case")
    parser.add_argument("--json", type=Path, help="write the report to this file too")
    parser.add_argument(
        "--spare-host",
        action="store_true",
        help="leave out cases that flush all rules of the host or restart the engine",
    )
    return parser.parse_args()


def main() -> int:
    """Run the folder; 0 if nothing failed."""
    arguments = _arguments()
    cases, file_faults = read_folder(arguments.folder)
    report = Report(failed={f"file {n}": [fault] for n, fault in enumerate(file_faults)})
    for fault in file_faults:
        _say(f"FAILED {fault}")
    chosen = _chosen(cases, arguments.only, arguments.layer)
    if not chosen and not file_faults:
        _say(f"no case in {arguments.folder} was chosen")
        return 2
    with (
        tempfile.TemporaryDirectory(prefix="abxt-cases-") as folder,
        Runner(Path(folder), backend=arguments.backend, spare_host=arguments.spare_host) as runner,
    ):
        for case in chosen:
            _run_case(runner, case, report, verbose=arguments.verbose)
        escaped = runner.escaped()
    if escaped:
        report.failed["guard"] = [f"{escaped} packets would have left the machine"]
        _say(f"FAILED guard: {escaped} packets would have left the machine")
    if arguments.json:
        arguments.json.write_text(json.dumps(report.to_document(), indent=1))
    for reason, count in sorted(Counter(report.not_run.values()).items()):
        _say(f"{count} not run: {reason}")
    _say(f"{len(report.passed)} passed, {len(report.failed)} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
