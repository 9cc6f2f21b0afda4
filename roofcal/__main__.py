"""`python -m roofcal`."""

import sys

from roofcal.cli import main

sys.exit(main())
