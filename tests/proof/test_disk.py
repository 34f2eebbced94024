"""A disk that is full or read-only: said with a code, nothing acknowledged is lost, it passes.

On real file systems of a few KiB in memory, mounted in a namespace of their own, where
anybody may do so.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import DATES, hold_against_schemas
from state_fixtures import markdown

