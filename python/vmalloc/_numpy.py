"""numpy's data in a space of the process."""

import contextvars

from . import _vmalloc

# The blocks that the context is in, each with numpy's handler before it. numpy keeps its handler in the
# context as well: one object may be in blocks of several tasks or threads at once.
_blocks = contextvars.ContextVar("vmalloc.use_for_numpy", default=())


class use_for_numpy:
    """Has arrays that are made in a ``with`` block keep their data in a space of vmalloc.

    It holds for the calling context (``contextvars``), as numpy's own setting does, and ends in that context.
    Arrays may outlive the block. Blocks may be nested. Data of less than ``threshold`` bytes is ``malloc``'s: 32
    KiB by default.
    With a threshold of 1 each array has pages of its own and a guard behind them: for finding faults, not for speed.
    """

    def __init__(self, threshold=_vmalloc.DEFAULT_THRESHOLD):
        import numpy as np

        if tuple(int(part) for part in np.__version__.split(".")[:2]) < (1, 22):
            raise ImportError("numpy 1.22 or later is needed")
        self._handler = _vmalloc.numpy_handler(threshold)

    def __enter__(self):
        before = _vmalloc.set_numpy_handler(self._handler)
        _blocks.set((*_blocks.get(), (self, before)))
        return self

    def __exit__(self, *_):
        blocks = list(_blocks.get())
        nth = max((nth for nth, (block, _) in enumerate(blocks) if block is self), default=None)
        if nth is None:
            raise RuntimeError("the block did not begin in this context")
        _, before = blocks.pop(nth)
        if nth == len(blocks):
            _vmalloc.set_numpy_handler(before)
        else:
            # One that began later goes on, as where a generator is closed. It puts that handler back.
            blocks[nth] = (blocks[nth][0], before)
        _blocks.set(tuple(blocks))
        return False


use_for_numpy.__module__ = "vmalloc"


def is_managed(array):
    """Returns whether the data of ``array`` lies in the space of numpy's data."""
    return _vmalloc.is_managed_address(array.__array_interface__["data"][0])
