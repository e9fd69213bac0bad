#!/usr/bin/env bash
# Install what the integration tests need beside Python, where this user may, and run them with the given pytest.
set -euo pipefail
if ! command -v strace >/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends strace
fi
exec "$1" -m integration
