"""`python -m easeml_meter` is `meter`."""

from easeml_meter.cli import main

main()
