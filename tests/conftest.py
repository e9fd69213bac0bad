"""What every test stands on: a home that is not the user's, no keys, and the plugin from outside."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "tests" / "plugin"

# An outside distribution, found through its entry points: by this process, and by those it starts.
sys.path.insert(0, str(PLUGIN))
os.environ["PYTHONPATH"] = os.pathsep.join([str(PLUGIN), *filter(None, [os.environ.get("PYTHONPATH")])])

# Environments and data are made once for all tests, and never in the user's own home.
os.environ.setdefault("ATP_HOME", str(ROOT / ".venv" / "atp-home"))

# No test spends money or touches a database of the user's.
for _name in (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ATP_DB",
    "GOOGLE_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "HF_TOKEN",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
):
    os.environ.pop(_name, None)

# Examples are checked for what they give, never for how long a busy machine takes.
settings.register_profile("atp", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("atp")

pytest_plugins = ["tests.foreign_endpoint", "tests.humaneval_data", "tests.local_hub", "tests.sampling"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With `ATP_REQUIRE=1` a skipped test has failed: what it needs was to be there."""
    report = yield
    if os.environ.get("ATP_REQUIRE") == "1" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although ATP_REQUIRE=1: {report.longrepr}"
    return report
