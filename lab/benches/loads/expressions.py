"""Expressions over arrays of 256 KiB to 64 MiB."""
import numpy as np

total = 0.0
for size in [15, 17, 19, 21, 23, 20, 18, 16]:
    a = np.arange(1 << size, dtype=np.float64)
    for step in range(max(2, (1 << 24) >> size)):
        b = np.sqrt(a + step) * a
        c = np.concatenate([a[: len(a) // 2], b[len(b) // 2 :]])
        total += float((c - b).sum() + np.where(a > step, a, b)[-1])
print(total)
