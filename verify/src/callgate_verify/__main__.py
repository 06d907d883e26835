"""`python -m callgate_verify`."""

import sys

from callgate_verify import main

sys.exit(main())
