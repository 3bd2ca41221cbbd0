"""`python -m chaos.toxiproxy`."""

import sys

from chaos.toxiproxy.server import main

sys.exit(main())
