"""What the package itself says, without a line of the adapter: run in its environment, prints JSON.

    python official_verdicts.py PAIR ...

The pairs are `suite/user_task_N/injection_task_M`; the attack addresses the model as MODEL_NAME says.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from agentdojo.agent_pipeline.agent_pipeline import load_system_message
from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline
from agentdojo.agent_pipeline.llms.openai_llm import _function_to_openai
from agentdojo.agent_pipeline.tool_execution import ToolsExecutor
from agentdojo.attacks.important_instructions_attacks import ImportantInstructionsAttackNoModelName
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites

SUITES = get_suites("v1.2.2")

AWKWARD: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "workspace": [
        ("search_contacts_by_name", {"query": "nobody of this name"}),
        (
            "send_email",
            {"recipients": "['a@example.com', 'b@example.com']", "subject": "s", "body": "[1, 2]"},
        ),
        ("send_email", {"recipients": 3}),
        ("get_day_calendar_events", {"day": "2024-05-15"}),
        ("share_file", {"file_id": "1", "email": "a@example.com", "permission": "x"}),
        ("delete_email", {"email_id": "999"}),
    ],
    "banking": [
        ("get_balance", {}),
        ("get_user_info", {}),
        ("get_most_recent_transactions", {"n": "2"}),
        ("update_scheduled_transaction", {"id": 7, "amount": 2.0}),
        ("read_file", {"file_path": "none.txt"}),
    ],
    "slack": [
        ("get_channels", {}),
        ("send_direct_message", {"recipient": "Bob", "body": "Grüße, 世界"}),
        ("read_inbox", {"user": "Bob"}),
        ("add_user_to_channel", {"user": "Nobody", "channel": "general", "more": 1}),
        ("get_webpage", {"url": "https://nowhere.example"}),
    ],
    "travel": [
        ("get_hotels_prices", {"hotel_names": "['Le Marais Boutique']"}),
        ("get_car_types_available", {"company_name": ["Speedy Rentals"]}),
        (
            "reserve_car_rental",
            {"company": "Speedy Rentals", "start_time": "2024-11-01 10:00", "end_time": None},
        ),
    ],
}
"""Calls whose results and errors show how the executor formats them, in order on one environment."""


class Silent:
    """Says nothing and calls nothing."""

    def query(self, query: str, runtime: Any, env: Any, messages: Any = (), extra_args: Any = None) -> Any:
        answer = {"role": "assistant", "content": [{"type": "text", "content": ""}], "tool_calls": None}
        return query, runtime, env, [*messages, answer], {}


class Target:
    """What an attack is made against."""

    name = "local"


def responses(name: str) -> list[dict[str, Any]]:
    suite = SUITES[name]
    runtime, environment = FunctionsRuntime(suite.tools), suite.load_and_inject_default_environment({})
    given = []
    for function, arguments in AWKWARD[name]:
        call = FunctionCall(function=function, args=dict(arguments))
        asked = {"role": "assistant", "content": None, "tool_calls": [call]}
        message = ToolsExecutor().query("", runtime, environment, [asked])[3][-1]
        given.append({"content": message["content"][0]["content"], "error": message["error"]})
    return given


def pair(task_id: str) -> dict[str, Any]:
    name, user_id, injection_id = task_id.split("/")
    suite = SUITES[name]
    user, injection = suite.user_tasks[user_id], suite.injection_tasks[injection_id]
    injections = ImportantInstructionsAttackNoModelName(suite, Target()).attack(user, injection)
    agents = {
        "user": GroundTruthPipeline(user),
        "attacker": GroundTruthPipeline(injection),
        "silent": Silent(),
    }
    environment = suite.load_and_inject_default_environment(injections)
    return {
        "goal": injection.GOAL,
        "calls": [[c.function, dict(c.args)] for c in injection.ground_truth(environment)],
        "answer": injection.GROUND_TRUTH_OUTPUT,
        "verdicts": {
            agent: suite.run_task_with_pipeline(pipeline, user, injection, injections)
            for agent, pipeline in agents.items()
        },
    }


def main() -> None:
    # A third user of descriptor 1: some SDKs print as they are imported.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
        said = {
            "system_message": load_system_message(None),
            "tools": {
                name: [_function_to_openai(tool)["function"] for tool in suite.tools]
                for name, suite in SUITES.items()
            },
            "awkward": AWKWARD,
            "responses": {name: responses(name) for name in SUITES},
            "silent": {
                f"{name}/{task.ID}": suite.run_task_with_pipeline(Silent(), task, None, {})[0]
                for name, suite in SUITES.items()
                for task in suite.user_tasks.values()
            },
            "ground_truth": {
                f"{name}/{task.ID}": suite.run_task_with_pipeline(GroundTruthPipeline(task), task, None, {})[
                    0
                ]
                for name, suite in SUITES.items()
                for task in suite.user_tasks.values()
            },
            "pairs": {task_id: pair(task_id) for task_id in sys.argv[1:]},
        }
        output.write(json.dumps(said))


if __name__ == "__main__":
    main()
