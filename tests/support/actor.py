"""`python -m tugtool.agents.scripted SCRIPT`, for the hundreds of them in a run of the tests.

Started with -I and -S: without looking for packages and without `runpy`, in half the time.
"""

import os
import sys

sys.path.append(os.path.abspath(f"{__file__}/../../../src"))

from tugtool.agents.scripted.__main__ import play_and_end

play_and_end()
