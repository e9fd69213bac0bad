"""The ledger itself: accounts as plain data, and what can be done to them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

State = dict[str, Any]
"""`{"accounts": {id: {"owner", "currency", "balance", "open"}}, "next": int}`; balances in cents."""


class Refused(Exception):
    """The ledger does not allow it; the text says why."""


def new_state() -> State:
    """A ledger without accounts."""
    return {"accounts": {}, "next": 1}


def copied(state: Mapping[str, Any]) -> State:
    """A ledger of one's own."""
    return copy.deepcopy(dict(state))


def open_account(
    state: State, owner: Mapping[str, Any], currency: str, deposit: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Open an account; gives its id."""
    name = f"acc-{state['next']}"
    state["next"] += 1
    state["accounts"][name] = {"owner": owner["name"], "currency": currency, "balance": 0, "open": True}
    if deposit is not None:
        _credit(state, name, deposit)
    return {"account": name, "currency": currency}


def deposit(state: State, account: str, amount: Mapping[str, Any]) -> dict[str, Any]:
    """Put money into an account; gives the new balance."""
    _credit(state, account, amount)
    return {"account": account, "balance": state["accounts"][account]["balance"]}


def transfer(
    state: State, source: str, target: str, amount: Mapping[str, Any], memo: str | None = None
) -> dict[str, Any]:
    """Move money between two accounts of one currency; gives both balances."""
    payer = _account(state, source)
    if payer["currency"] != amount["currency"]:
        raise Refused(f"{source} is kept in {payer['currency']}, not in {amount['currency']}")
    if payer["balance"] < amount["cents"]:
        raise Refused(f"{source} holds {payer['balance']} cents, less than {amount['cents']}")
    _credit(state, target, amount)
    payer["balance"] -= amount["cents"]
    return {"source": payer["balance"], "target": state["accounts"][target]["balance"], "memo": memo}


def balance(state: State, account: str) -> int:
    """Cents in an account."""
    return int(_account(state, account)["balance"])


def close(state: State, account: str) -> dict[str, Any]:
    """Close an empty account."""
    held = _account(state, account)
    if held["balance"] != 0:
        raise Refused(f"{account} still holds {held['balance']} cents")
    held["open"] = False
    return {"account": account, "open": False}


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "open_account": open_account,
    "deposit": deposit,
    "transfer": transfer,
    "balance": balance,
    "close": close,
}


def _account(state: State, name: str) -> dict[str, Any]:
    account: dict[str, Any] | None = state["accounts"].get(name)
    if account is None:
        raise Refused(f"there is no account {name!r}")
    if not account["open"]:
        raise Refused(f"{name} is closed")
    return account


def _credit(state: State, name: str, amount: Mapping[str, Any]) -> None:
    account = _account(state, name)
    if account["currency"] != amount["currency"]:
        raise Refused(f"{name} is kept in {account['currency']}, not in {amount['currency']}")
    account["balance"] += amount["cents"]
