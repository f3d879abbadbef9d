"""numpy's data in a space of the process."""

from . import _vmalloc


class numpy:
    """Has arrays that are made in a ``with`` block keep their data in a space of vmalloc.

    It holds for the calling context (``contextvars``), as numpy's own setting does. Arrays may outlive the
    block. Blocks may be nested. Data of less than ``threshold`` bytes is ``malloc``'s: 32 KiB by default.
    With a threshold of 1 each array has pages of its own and a guard behind them: for finding faults, not for speed.
    """

    def __init__(self, threshold=_vmalloc.DEFAULT_THRESHOLD):
        import numpy as np

        if tuple(int(part) for part in np.__version__.split(".")[:2]) < (1, 22):
            raise ImportError("numpy 1.22 or later is needed")
        self._handler = _vmalloc.numpy_handler(threshold)
        self._before = []

    def __enter__(self):
        self._before.append(_vmalloc.set_numpy_handler(self._handler))
        return self

    def __exit__(self, *_):
        _vmalloc.set_numpy_handler(self._before.pop())
        return False


def is_managed(array):
    """Returns whether the data of ``array`` lies in the space of numpy's data."""
    return _vmalloc.is_managed_address(array.__array_interface__["data"][0])
