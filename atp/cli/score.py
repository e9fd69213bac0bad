"""`atp score`: grade a given answer by a benchmark's rule, without an agent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from atp.cli.options import Settings, command, options_by_owner
from atp.cli.output import print_facts, print_json


@command
def score(
    settings: Settings,
    benchmark: Annotated[str, typer.Argument(metavar="BENCHMARK", help="A benchmark, or file:TASKS.jsonl.")],
    task: Annotated[str, typer.Argument(metavar="TASK", help="The id of one of its tasks.")],
    answer: Annotated[str | None, typer.Option("--answer", metavar="TEXT", help="The answer.")] = None,
    answer_file: Annotated[
        Path | None,
        typer.Option("--answer-file", metavar="F", help="A file with the answer; - reads standard input."),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", metavar="benchmark.KEY=V", help="An option of the benchmark.")
    ] = None,
) -> None:
    """Grade a given answer by the benchmark's rule; exit 1 when there is no score."""
    import os

    from atp import registry
    from atp.cli.event_loop import run
    from atp.engine import datasets
    from atp.engine.benchmark_worker import benchmark_workers
    from atp.engine.grading import grade
    from atp.engine.home import home
    from atp.engine.sampling import select
    from atp.protocol.redaction import Redactor
    from atp.protocol.status import Status
    from atp.protocol.trace import Grade, TaskTrace

    text = _answer(answer, answer_file)
    chosen = registry.benchmark(
        benchmark, options_by_owner(option or [], ("benchmark",))["benchmark_options"]
    )
    [item] = select(chosen.load(datasets.folder_for(chosen.card)), [task])
    trace = TaskTrace(task_id=task, final_answer=text, status=Status.COMPLETED)

    async def graded() -> Grade:
        async with benchmark_workers(
            [chosen], home() / "logs" / "score", Redactor.of_environment(os.environ)
        ):
            return await grade(chosen, item, trace)

    verdict = run(graded())
    result = {"task_id": task, **verdict.model_dump(mode="json")}
    if settings.json:
        print_json(result)
    else:
        print_facts(result)
    if verdict.score is None:
        raise typer.Exit(1)


def _answer(text: str | None, file: Path | None) -> str:
    from atp.protocol.errors import InvalidInput, UsageError

    if (text is None) == (file is None):
        raise UsageError("give the answer by --answer TEXT or by --answer-file F, one of them")
    if text is not None:
        return text
    assert file is not None
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--answer-file {file}: cannot be read: {error}") from error
