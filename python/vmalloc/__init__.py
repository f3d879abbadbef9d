"""numpy's data and buffers in guarded areas of a virtual-address allocator."""

from ._vmalloc import Area, AreaInfo, Space, __version__, numpy_stats
from ._numpy import is_managed, use_for_numpy

__all__ = ["Area", "AreaInfo", "Space", "is_managed", "numpy_stats", "use_for_numpy"]
