"""`python -m frost` is another spelling of `frost`."""

import sys

from frost.cli import main

sys.exit(main())
