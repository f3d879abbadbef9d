"""A plugin of pytest: all arrays of a session have their data in a space of vmalloc, and each test is looked at.

``pytest -p vmalloc_session``. With ``VMALLOC_CLIENT_THRESHOLD`` data of less bytes is malloc's: 1 by default, so that all is ours.
"""

import os

import numpy as np
import pytest
import vmalloc

_block = vmalloc.use_for_numpy(threshold=int(os.environ.get("VMALLOC_CLIENT_THRESHOLD", "1")))
_counts = {"managed": 0, "unmanaged": 0, "most_areas": 0, "most_bytes": 0}


def pytest_configure(config):
    _block.__enter__()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Looks whether arrays come from the space before a test, and after it."""
    before = vmalloc.is_managed(np.empty(1 << 20, np.uint8))
    try:
        return (yield)
    finally:
        is_managed = before and vmalloc.is_managed(np.empty(1 << 20, np.uint8))
        _counts["managed" if is_managed else "unmanaged"] += 1
        stats = vmalloc.numpy_stats()
        _counts["most_areas"] = max(_counts["most_areas"], stats["busy_areas"])
        _counts["most_bytes"] = max(_counts["most_bytes"], stats["busy_bytes"])


def pytest_terminal_summary(terminalreporter):
    words = " ".join(f"{name}={count}" for name, count in _counts.items())
    terminalreporter.write_line(f"vmalloc: {words} purges={vmalloc.numpy_stats()['purges']}")
