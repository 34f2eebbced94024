"""Every test of the record runs on both engines."""

import pytest


@pytest.fixture(autouse=True)
def _on_both(engine):
    """The engine is chosen before anything is opened."""
