"""Scripted models: a real HTTP endpoint on loopback that follows a script instead of predicting."""

from atp.models.scripted.endpoint import ScriptedEndpoint, ScriptedSession
from atp.models.scripted.policies import policy_for
from atp.models.scripted.script import Script

__all__ = ["Script", "ScriptedEndpoint", "ScriptedSession", "policy_for"]
