"""`python -m roofcal`."""

import sys

from roofcal.cli.main import main

sys.exit(main())
