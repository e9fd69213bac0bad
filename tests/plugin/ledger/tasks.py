"""The tasks, made from a seed: the same seed gives the same tasks, to the byte."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from atp.protocol.task import Expected, ExpectedAction, TaskInput, TextPart
from ledger import accounts
from ledger.tools import CURRENCIES

_OWNERS = ("Ada", "Blaise", "Carl", "Dorothy", "Emmy", "Fibonacci")


@dataclass(frozen=True, slots=True)
class LedgerTask:
    """A task, and what its user says. The lines are no gold: they reach the agent's side by and by."""

    task: TaskInput
    lines: tuple[str, ...]
    """Empty when there is no user: the instruction then says it all."""


def tasks(count: int, seed: int, lines: int = 2) -> Sequence[LedgerTask]:
    """`count` tasks, every second one a dialogue of so many lines, two at least."""
    return [_task(index, random.Random(f"{seed}:{index}"), lines) for index in range(count)]


def _task(index: int, rng: random.Random, lines: int) -> LedgerTask:
    currency = rng.choice(CURRENCIES)
    state = accounts.new_state()
    first, second = (
        accounts.open_account(state, {"name": owner}, currency)["account"] for owner in rng.sample(_OWNERS, 2)
    )
    accounts.deposit(state, first, {"cents": rng.randrange(50_000, 99_999), "currency": currency})
    owner = rng.choice(_OWNERS)
    opened = f"acc-{state['next']}"
    paid, moved = rng.randrange(1_000, 9_999), rng.randrange(10_000, 49_999)
    actions: list[tuple[str, dict[str, Any]]] = [
        ("open_account", {"owner": {"name": owner}, "currency": currency}),
        ("deposit", {"account": opened, "amount": _money(paid, currency)}),
        ("transfer", {"source": first, "target": opened, "amount": _money(moved, currency), "memo": None}),
        ("balance", {"account": opened}),
    ]
    requests = (
        f"Open an account in {currency} for {owner}. Then deposit {paid} cents into it.",
        f"Transfer {moved} cents from {first} to the new account, and tell me its balance in cents.",
    )
    dialogue = index % 2 == 1
    return LedgerTask(
        TaskInput(
            task_id=f"ledger-{index:03d}",
            instruction=() if dialogue else (TextPart(text=" ".join(requests)),),
            initial_state=state,
            metadata={"dialogue": dialogue, "currency": currency, "bystander": second},
            expected=Expected(
                actions=tuple(ExpectedAction(name=name, arguments=arguments) for name, arguments in actions),
                outputs=(str(paid + moved),),
            ),
        ),
        (*requests, *["Tell me the balance once more."] * (lines - len(requests))) if dialogue else (),
    )


def _money(cents: int, currency: str) -> dict[str, Any]:
    return {"cents": cents, "currency": currency}
