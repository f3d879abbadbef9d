"""numpy's data and buffers in guarded areas of a virtual-address allocator."""

from ._vmalloc import Area, Space, __version__, numpy_stats
from ._numpy import is_managed, numpy

__all__ = ["Area", "Space", "is_managed", "numpy", "numpy_stats"]
