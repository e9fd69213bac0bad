#!/usr/bin/env bash
# Run the integration tests with the given pytest. Having none is said, and is no failure.
set -uo pipefail
"$1" -m integration
code=$?
if [ "$code" -eq 5 ]; then
  echo "integration: no test is marked so; nothing was run"
  exit 0
fi
exit "$code"
