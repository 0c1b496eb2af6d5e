"""`python -m treadle` is `treadle`."""

from treadle.cli import main

main()
