"""`python -m atp.cli`."""

from atp.cli.app import main

main()
