"""`python -m qosmanager`."""

from qosmanager.cli.main import main

main()
