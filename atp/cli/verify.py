"""`atp verify`: whether harnesses and benchmarks keep the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from atp.cli.options import Settings, command
from atp.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atp.conformance.verification import PairResult


@command
def verify(
    settings: Settings,
    benchmark: Annotated[
        list[str] | None,
        typer.Option("-b", "--benchmark", metavar="BENCHMARK", help="[default: all that are ready]"),
    ] = None,
    harness: Annotated[
        list[str] | None,
        typer.Option("-H", "--harness", metavar="HARNESS", help="[default: all that are ready]"),
    ] = None,
) -> None:
    """Check harnesses, benchmarks and pairs of them with scripted models; exit 1 when one breaks a rule."""
    from atp.cli.event_loop import run
    from atp.conformance.verification import verify as verified

    def say(text: str) -> None:
        note(settings, f"verify: {text}")

    pairs = run(verified(benchmark or (), harness or (), say))
    results = [check.passed for pair in pairs for check in pair.checks]
    passed, failed = results.count(True), results.count(False)
    if settings.json:
        print_json({"pairs": [pair.as_json() for pair in pairs], "passed": passed, "failed": failed})
    else:
        _print(pairs)
        note(settings, f"{passed} checks passed, {failed} failed")
    if failed:
        raise typer.Exit(1)


def _print(pairs: Sequence[PairResult]) -> None:
    print_table(
        ("benchmark", "harness", "data", ">passed", ">failed"),
        [
            (
                pair.benchmark,
                pair.harness,
                pair.data,
                sum(check.passed for check in pair.checks),
                sum(not check.passed for check in pair.checks),
            )
            for pair in pairs
        ],
    )
    broken = {(check.name, check.detail): pair for pair in pairs for check in pair.checks if not check.passed}
    if broken:
        print()
        print_table(
            ("failed", "of", "what is wrong"),
            [(name, f"{pair.benchmark}, {pair.harness}", detail) for (name, detail), pair in broken.items()],
        )
