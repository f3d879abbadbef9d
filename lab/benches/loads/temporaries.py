"""Temporaries of 4 MiB: an expression over arrays of 512 Ki doubles, 400 times."""
import numpy as np

a = np.arange(1 << 19, dtype=np.float64)
b = a[::-1].copy()
total = 0.0
for step in range(400):
    total += ((a + b) * 2.0 - a / 3.0 + (b - a) * step)[step]
print(total)
