"""Runs the scripted endpoint; see `atp.models.scripted.process`."""

import sys

from atp.models.scripted.process import main

sys.exit(main(sys.argv[1:]))
