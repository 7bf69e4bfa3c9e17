"""`python -m appliance`: the same as the console script."""

import sys

from appliance.cli.main import main

sys.exit(main())
