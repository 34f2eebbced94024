"""`python -m tugtool` is `tugcode`."""

from tugtool.cli.main import run

run()
