"""numpy's data in the space: contents, life times, threads, forks."""

import asyncio
import contextvars
import gc
import os
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

import vmalloc

LARGE = 1 << 20


def test_large_arrays_are_in_the_space_and_small_ones_are_not():
    with vmalloc.use_for_numpy():
        large, small, zeros = np.empty(LARGE), np.empty(16), np.zeros(LARGE)
    outside = np.empty(LARGE)
    assert [vmalloc.is_managed(array) for array in (large, small, zeros, outside)] == [True, False, True, False]
    assert not zeros.any()


def test_arrays_outlive_the_block_and_their_memory_comes_back():
    before = (vmalloc.numpy_stats() or {"busy_areas": 0})["busy_areas"]
    with vmalloc.use_for_numpy():
        arrays = [np.full(LARGE, nth) for nth in range(8)]
    assert all((array == nth).all() for nth, array in enumerate(arrays))
    assert vmalloc.numpy_stats()["busy_areas"] == before + 8
    del arrays
    assert vmalloc.numpy_stats()["busy_areas"] == before


def test_blocks_nest_and_end_with_exceptions():
    with pytest.raises(ZeroDivisionError), vmalloc.use_for_numpy():
        with vmalloc.use_for_numpy():
            assert vmalloc.is_managed(np.empty(LARGE))
        assert vmalloc.is_managed(np.empty(LARGE))
        1 / 0
    assert not vmalloc.is_managed(np.empty(LARGE))


def test_one_object_serves_tasks_whose_blocks_interleave():
    outer, shared = vmalloc.use_for_numpy(), vmalloc.use_for_numpy()
    managed = lambda: vmalloc.is_managed(np.empty(LARGE))

    async def nested(turn):
        with outer:
            with shared:
                await turn.wait()
                within = managed()
            return within, managed()

    async def alone(turn):
        with shared:
            turn.set()
            await asyncio.sleep(0.01)
            within = managed()
        return within, managed()

    async def both():
        turn = asyncio.Event()
        return await asyncio.gather(nested(turn), alone(turn))

    assert asyncio.run(both()) == [(True, True), (True, False)]
    assert not managed()


def test_a_generator_ends_its_block_inside_another():
    def generator():
        with vmalloc.use_for_numpy():
            yield

    suspended = generator()
    next(suspended)
    with vmalloc.use_for_numpy():
        suspended.close()
        assert vmalloc.is_managed(np.empty(LARGE))
    assert not vmalloc.is_managed(np.empty(LARGE))


def test_a_block_ends_where_it_began():
    block = vmalloc.use_for_numpy()
    contextvars.copy_context().run(block.__enter__)
    with pytest.raises(RuntimeError):
        block.__exit__(None, None, None)
    assert not vmalloc.is_managed(np.empty(LARGE))


def test_a_threshold_holds_for_its_block_and_arrays_outlive_its_handler():
    with vmalloc.use_for_numpy(threshold=1):
        small = np.arange(3)
        with vmalloc.use_for_numpy(threshold=1 << 20):
            below, above = np.empty((1 << 20) - 1, np.uint8), np.empty(1 << 20, np.uint8)
        assert vmalloc.is_managed(np.empty(0)) and vmalloc.is_managed(np.zeros(1))
    gc.collect()
    assert [vmalloc.is_managed(array) for array in (small, below, above)] == [True, False, True]
    # Under the handler that it was made with, whichever is set now.
    small.resize(100_000, refcheck=False)
    assert vmalloc.is_managed(small) and small[:3].tolist() == [0, 1, 2] and not small[3:].any()
    small.resize(5, refcheck=False)
    assert vmalloc.is_managed(small) and small.tolist() == [0, 1, 2, 0, 0]


@pytest.mark.parametrize("threshold", [-1, 1 << 64, "many", 0.5])
def test_absurd_thresholds_are_refused(threshold):
    with pytest.raises((ValueError, TypeError)):
        vmalloc.use_for_numpy(threshold=threshold)


def test_resizing_keeps_the_content_over_the_threshold():
    seed = int(os.environ.get("VMALLOC_SEED", random.randrange(1 << 32)))
    print("VMALLOC_SEED =", seed)
    numbers = random.Random(seed)
    with vmalloc.use_for_numpy():
        array = np.arange(10)
    for _ in range(300):
        count = numbers.choice([1, 10, 4095, 4096, 4097, 10_000, 1 << 18, 700_001, 1 << 20])
        kept = min(count, len(array))
        before = array[:kept].copy()
        array.resize(count, refcheck=False)
        assert (array[:kept] == before).all() and not array[kept:].any()
        array[:] = np.arange(count) + numbers.randrange(1000)


def flags_at(address):
    """Returns the flags of the mapping at an address, as the kernel shows them."""
    inside = False
    for line in open("/proc/self/smaps"):
        start, _, end = line.split(" ", 1)[0].partition("-")
        if end:
            inside = int(start, 16) <= address < int(end, 16)
        elif inside and line.startswith("VmFlags:"):
            return line.split()[1:]


@pytest.mark.skipif(
    not os.path.exists("/sys/kernel/mm/transparent_hugepage/enabled"), reason="the kernel has no huge pages of this kind"
)
def test_the_kernel_is_asked_for_huge_pages_behind_large_arrays_as_by_numpy_s_own():
    with vmalloc.use_for_numpy():
        array = np.empty(16 << 20, np.uint8)
    assert "hg" in flags_at(array.ctypes.data + array.nbytes // 2)
    program = "import numpy as np, vmalloc, test_numpy\nwith vmalloc.use_for_numpy():\n a = np.empty(16 << 20, np.uint8)\n" \
        "print('hg' in test_numpy.flags_at(a.ctypes.data + a.nbytes // 2))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=os.path.dirname(__file__),
        env=os.environ | {"NUMPY_MADVISE_HUGEPAGE": "0"},
    )
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_threads_allocate_and_free_at_once():
    def work(nth, failed):
        with vmalloc.use_for_numpy():
            for step in range(200):
                array = np.full(8192 + step, nth)
                if not (array + 1 == nth + 1).all():
                    failed.append(nth)

    failed = []
    threads = [threading.Thread(target=work, args=(nth, failed)) for nth in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert failed == []


def test_a_child_of_a_fork_goes_on():
    with vmalloc.use_for_numpy():
        array = np.full(LARGE, 7)
        child = os.fork()
        if child == 0:
            again = np.full(LARGE, 8)
            os._exit(0 if (array == 7).all() and (again == 8).all() and vmalloc.is_managed(again) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_arrays_may_live_until_the_interpreter_ends():
    program = "import numpy as np, vmalloc, atexit\nwith vmalloc.use_for_numpy():\n a = np.ones(1 << 20)\n" \
        "atexit.register(lambda: print(a.sum()))\nimport builtins; builtins.kept = a\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(float(1 << 20)), "")


def test_absurd_sizes_are_memory_errors():
    with vmalloc.use_for_numpy():
        with pytest.raises((MemoryError, ValueError)):
            np.empty(1 << 59, dtype=np.uint8)
        with pytest.raises((MemoryError, ValueError)):
            np.zeros(1 << 60)
