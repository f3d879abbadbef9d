"""Spaces and areas: the buffer protocol, life times, errors."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import vmalloc


def test_an_area_is_zeros_that_can_be_written():
    area = vmalloc.Space(1 << 24).alloc(100_000, tag="rows")
    view = memoryview(area)
    assert (len(area), view.nbytes, view.readonly, view.format) == (100_000, 100_000, False, "B")
    assert not any(view)
    view[99_999] = 5
    assert np.frombuffer(area, dtype=np.uint8)[99_999] == 5


def test_views_keep_the_area_and_its_space():
    array = np.frombuffer(vmalloc.Space(1 << 24).alloc(8192), dtype=np.uint64)
    array[:] = 3
    assert array.sum() == 3 * 1024


def test_an_area_with_a_view_is_not_freed():
    space = vmalloc.Space(1 << 24)
    area = space.alloc(4096)
    view = memoryview(area)
    with pytest.raises(BufferError):
        area.free()
    view.release()
    area.free()
    assert space.stats()["busy_areas"] == 0
    for use in (area.free, lambda: len(area), lambda: area.address):
        with pytest.raises(ValueError):
            use()
    with pytest.raises(BufferError):
        memoryview(area)


def test_threads_view_and_free_one_area_at_once():
    """On a free-threaded interpreter it fails where a call borrows the area; on others it shows less."""
    failed = []

    def view(area, start):
        start.wait()
        try:
            for _ in range(2000):
                with memoryview(area) as shown:
                    assert len(shown) == len(area) == 4096 and area.address != 0
        except BaseException as error:  # A panic is none of Exception.
            failed.append(error)

    def try_to_free(area, start):
        start.wait()
        try:
            for _ in range(2000):
                with pytest.raises(BufferError):
                    area.free()
        except BaseException as error:
            failed.append(error)

    space = vmalloc.Space(1 << 24)
    area, start = space.alloc(4096), threading.Barrier(5)
    kept = memoryview(area)
    threads = [threading.Thread(target=view, args=(area, start)) for _ in range(4)]
    threads.append(threading.Thread(target=try_to_free, args=(area, start)))
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert failed == []
    kept.release()
    area.free()
    assert space.stats()["busy_areas"] == 0


def test_one_of_many_threads_frees_an_area():
    space = vmalloc.Space(1 << 24)

    def free(area, start, answers):
        start.wait()
        try:
            answers.append(area.free())
        except BaseException as error:
            answers.append(type(error))

    for _ in range(50):
        area, start, answers = space.alloc(4096), threading.Barrier(4), []
        threads = [threading.Thread(target=free, args=(area, start, answers)) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert sorted(map(str, answers)) == sorted(map(str, [None] + 3 * [ValueError]))
    assert space.stats()["busy_areas"] == 0


def test_stats_count_areas_and_a_purge_gives_them_back():
    space = vmalloc.Space(1 << 26)
    areas = [space.alloc(65_536) for _ in range(10)]
    stats = space.stats()
    assert stats["busy_areas"] == 10 and stats["busy_bytes"] == 10 * (65_536 + 4096)
    assert stats["span_bytes"] == 1 << 26
    del areas
    space.purge()
    assert space.stats()["busy_areas"] == 0


def test_bad_sizes_are_errors_and_change_nothing():
    with pytest.raises(ValueError):
        vmalloc.Space(0)
    space = vmalloc.Space(1 << 20)
    for wrong in (0, (1 << 63) + 1):
        with pytest.raises(ValueError):
            space.alloc(wrong)
    for wrong in (-1, 1 << 65):
        with pytest.raises(OverflowError):
            space.alloc(wrong)
    with pytest.raises(MemoryError):
        space.alloc(1 << 40)
    assert space.stats()["busy_areas"] == 0


def test_an_overrun_ends_the_program():
    program = "import vmalloc, ctypes\na = vmalloc.Space(1 << 24).alloc(4096)\n" \
        "ctypes.memset(a.address + 4096, 1, 1)\n"
    assert subprocess.run([sys.executable, "-c", program]).returncode == -11
