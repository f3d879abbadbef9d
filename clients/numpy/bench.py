"""Temporaries of numpy in a space of vmalloc, beside a reused buffer and numpy's own allocator.

All contenders take turns in short rounds, so that a busy machine slows all of them; the medians of the rounds are compared. CPU time
and page faults are those of getrusage(2).
"""

import gc
import resource
import statistics
import sys

import numpy as np
import vmalloc

MIB = 1 << 20
PAGE = resource.getpagesize()
# Bytes of additions in one round of a contender.
ROUND = 256 * MIB


def one(a, b, out):
    """One array is made: the sum."""
    if out is None:
        a + b
    else:
        np.add(a, b, out=out[0])


def three(a, b, out):
    """Three arrays are made, and live at once at the end."""
    if out is None:
        c = a + b
        d = c * a
        _ = d - b
    else:
        np.add(a, b, out=out[0])
        np.multiply(out[0], a, out=out[1])
        np.subtract(out[1], b, out=out[2])


def measured(work, repeats):
    """Returns the seconds of CPU time and the page faults of one repetition.

    The first one is not counted: a turn comes after a pause of some tenths of a second, in which freed memory decays.
    """
    work()
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(repeats):
        work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds / repeats, (after.ru_minflt - before.ru_minflt) / repeats


def case(name, expression, arrays, mib, rounds):
    count = mib * MIB // 8
    a, b = np.full(count, 1.5), np.full(count, 2.5)
    out = [np.empty(count) for _ in range(arrays)]
    with vmalloc.use_for_numpy():
        assert vmalloc.is_managed(a + b)
    def ours(repeats):
        with vmalloc.use_for_numpy():
            return measured(lambda: expression(a, b, None), repeats)

    ways = [
        lambda repeats: measured(lambda: expression(a, b, out), repeats),
        ours,
        lambda repeats: measured(lambda: expression(a, b, None), repeats),
    ]
    repeats = max(4, ROUND // (mib * MIB * arrays))
    for way in ways:
        way(2)
    results = [[way(repeats) for way in ways] for _ in range(rounds)]
    cpu = [statistics.median(row[way][0] for row in results) for way in range(3)]
    faults = [statistics.median(row[way][1] for row in results) for way in range(3)]
    ratio, share = cpu[1] / cpu[0], faults[1] / (arrays * mib * MIB / PAGE)
    verdict = "reached" if ratio <= 1.1 and share <= 0.05 else "MISSED"
    print(
        f"{name:<6} {mib:>3} MiB {1e6 * cpu[0]:>10.0f} {1e6 * cpu[1]:>8.0f} {1e6 * cpu[2]:>8.0f} {ratio:>8.2f} "
        f"{cpu[2] / cpu[0]:>8.2f} {faults[1]:>10.1f} {faults[2]:>9.1f} {100 * share:>8.2f} %   {verdict}",
        flush=True,
    )


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    gc.disable()
    print(f"numpy {np.__version__}: µs of CPU time for an expression, and its page faults; bars: CPU ≤ 1.1 × reused, faults ≤ 5 % of the pages")
    print("arrays  each        reused     ours    numpy  ours/re. numpy/re.  faults: ours   numpy   of pages")
    for mib in (int(word) for word in sys.argv[2:] or (1, 2, 4, 8, 16, 32, 64)):
        case("one", one, 1, mib, rounds)
        case("three", three, 3, mib, rounds)


main()
