"""A live set of 256 arrays of 32 KiB to 4 MiB, of which one is replaced at each of 12,000 steps."""
import numpy as np
import random

random.seed(7)
sizes = [int(2 ** random.uniform(15, 22)) for _ in range(4096)]
live = [np.zeros(8) for _ in range(256)]
total = 0
for step in range(12_000):
    at = random.randrange(len(live))
    new = np.empty(sizes[step % len(sizes)] // 8)
    new.fill(step)
    total += int(live[at][-1])
    live[at] = new
print(total)
