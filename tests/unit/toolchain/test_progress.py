"""What a person sees of a step."""

from __future__ import annotations

import io

from toolchain.progress import TICK_S, Step


def test_step_that_speaks_doesnt_tick_besides() -> None:
    """A line of the step counts as a report."""
    now = [0.0]
    output = io.StringIO()
    step = Step("build", output=output, clock=lambda: now[0])
    now[0] = TICK_S - 1
    step.say("a line")
    now[0] = TICK_S + 1
    step.tick("too early")
    assert output.getvalue() == "build      a line\n"


def test_long_step_reports_every_few_seconds_and_its_time() -> None:
    """A step says how far it is at most once per interval, and how long it took."""
    now = [100.0]
    output = io.StringIO()
    step = Step("build", output=output, clock=lambda: now[0])
    for passed in (1.0, TICK_S, TICK_S + 1, 2 * TICK_S + 1):
        now[0] = 100.0 + passed
        step.tick(f"at {passed:.0f}")
    now[0] = 112.5
    step.done("built")
    assert output.getvalue().splitlines() == [
        "build      at 5, 5 s",
        "build      at 11, 11 s",
        "build      built (12.5 s)",
    ]
