#!/usr/bin/env bash
# A real benchmark through a real harness without a key: scripted models, marked as simulated.
set -euo pipefail
demo="$(dirname "$(dirname "$(command -v atp)")")/demo"
rm -rf "$demo"
mkdir -p "$demo"
export ATP_DB="sqlite:///$demo/atp.db"

harnesses=(crewai google-adk langgraph openai-agents smolagents)
say() { printf '\n$ %s\n' "$*"; "$@"; }

for harness in "${harnesses[@]}"; do say atp env create "$harness" -q; done
for benchmark in humaneval tau3-airline; do say atp data get "$benchmark" -q; done
say atp run -b humaneval -b tau3-airline "${harnesses[@]/#/-H}" \
  -m scripted/oracle -m scripted/noop -n 10 --seed 1 --name demo
run="$(atp results demo --json | python -c '
import json, sys
runs = json.load(sys.stdin)["attempts"]
print(next(run["run_id"] for run in runs if run["benchmark"] == "tau3-airline" and len(run["tool_calls"]) > 1))
')"
say atp trace "$run" --tree

cat <<'END'

The models above follow a script, so their results are marked simulated. With a key of your own:

  export OPENAI_API_KEY=...
  export ATP_HOME="$PWD/.venv/atp-home"    # where this demo has put environment and data
  .venv/bin/atp run -b humaneval -H langgraph -m openai/gpt-5.2 -n 10

Any OpenAI-compatible server works as well: add --base-url http://127.0.0.1:8000/v1
END
