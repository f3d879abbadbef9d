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
    for use in (area.free, lambda: len(area), lambda: area.addr):
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
                    assert len(shown) == len(area) == 4096 and area.addr != 0
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


def test_a_with_block_frees_its_area():
    space = vmalloc.Space(1 << 24)
    with space.alloc(4096) as area:
        assert len(area) == 4096
    assert space.stats()["busy_areas"] == 0
    with pytest.raises(ValueError), area:
        pass
    with space.alloc(4096) as area:
        area.free()
    with pytest.raises(ZeroDivisionError), space.alloc(4096):
        1 / 0
    assert space.stats()["busy_areas"] == 0
    with pytest.raises(BufferError), space.alloc(4096) as area:
        view = memoryview(area)
    view[0] = 1
    assert space.stats()["busy_areas"] == 1


def test_an_area_is_found_by_any_address_inside():
    space = vmalloc.Space(1 << 24)
    rows, plain = space.alloc(100_000, tag="rows", record=2**64 - 1), space.alloc(1)
    found = space.find(rows.addr + 99_999)
    assert (found.addr, found.tag) == (rows.addr, "rows") and 100_000 <= found.size < 104_096
    assert (found.record, space.find(plain.addr).record) == (2**64 - 1, 0)
    assert found == space.find(rows.addr) and hash(found) == hash(space.find(rows.addr))
    assert space.find(plain.addr).tag is None and space.find(plain.addr) != found
    address = rows.addr
    rows.free()
    for nowhere in (address, 0, (1 << 64) - 1, id(space)):
        assert space.find(nowhere) is None
    with pytest.raises(ValueError):
        space.find(-1)


def test_an_area_lies_where_its_alignment_says():
    space = vmalloc.Space(1 << 28)
    areas = [space.alloc(5000, align=1 << shift) for shift in range(22)]
    assert all(area.addr % (1 << shift) == 0 for shift, area in enumerate(areas))
    # It stays, wherever a resized area lies.
    for shift, area in enumerate(areas):
        area.resize(1 << 20)
        assert area.addr % (1 << shift) == 0


def test_a_resized_area_keeps_its_content_and_gains_zeros():
    space = vmalloc.Space(1 << 28)
    area, behind = space.alloc(10, tag="rows"), space.alloc(10)
    memoryview(area)[:] = b"0123456789"
    for size in (5, 20_000, 1 << 20, 7, 4096):
        kept = bytes(area)[:min(size, 5)]
        area.resize(size)
        assert len(area) == size and bytes(area) == kept.ljust(size, b"\0")
    assert space.find(area.addr).tag == "rows" and len(behind) == 10
    view, before = memoryview(area), area.addr
    with pytest.raises(BufferError, match="a view of the area is still there"):
        area.resize(1 << 16)
    other = memoryview(area)
    with pytest.raises(BufferError, match="2 views of the area are still there"):
        area.resize(1 << 16)
    view.release(), other.release()
    for wrong, error in ((0, ValueError), (-1, ValueError), (1 << 63, ValueError), (1 << 40, MemoryError)):
        with pytest.raises(error):
            area.resize(wrong)
    assert (area.addr, bytes(area)) == (before, b"01234".ljust(4096, b"\0"))
    area.free()
    with pytest.raises(ValueError):
        area.resize(1)


def test_threads_resize_and_view_one_area_at_once():
    area, failed = vmalloc.Space(1 << 26).alloc(4096), []

    def work(start, nth):
        start.wait()
        for step in range(300):
            try:
                if nth == 0:
                    area.resize(4096 << step % 5)
                else:
                    with memoryview(area) as view:
                        view[view.nbytes - 1] = 0
            except BufferError:
                pass
            except BaseException as error:
                failed.append(error)

    start = threading.Barrier(4)
    threads = [threading.Thread(target=work, args=(start, nth)) for nth in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert failed == [] and not any(memoryview(area))


def test_objects_show_what_they_are():
    space = vmalloc.Space(1 << 24)
    area = space.alloc(5000, tag="it's")
    assert repr(space) == "<vmalloc.Space of 16777216 bytes, areas in use: 1>"
    assert repr(area) == f"<vmalloc.Area at {area.addr:#x}, 5000 bytes>"
    assert repr(space.find(area.addr)) == f"vmalloc.AreaInfo(addr={area.addr:#x}, size=8192, tag=\"it's\", record=0)"
    area.free()
    assert repr(area) == "<vmalloc.Area, freed>"


def test_stats_count_areas_and_a_purge_gives_them_back():
    space = vmalloc.Space(1 << 26)
    areas = [space.alloc(65_536) for _ in range(10)]
    stats = space.stats()
    assert type(stats) is dict and {(type(name), type(count)) for name, count in stats.items()} == {(str, int)}
    assert stats["busy_areas"] == 10 and stats["busy_bytes"] == 10 * (65_536 + 4096)
    assert stats["span_bytes"] == 1 << 26
    del areas
    space.purge()
    assert space.stats()["busy_areas"] == 0


def test_bad_sizes_are_errors_and_change_nothing():
    with pytest.raises(ValueError):
        vmalloc.Space(0)
    space = vmalloc.Space(1 << 20)
    for wrong in (0, -1, (1 << 63) + 1, 1 << 65, -1 << 200):
        with pytest.raises(ValueError):
            space.alloc(wrong)
    with pytest.raises(TypeError):
        space.alloc(0.5)
    for align in (0, 3, -4096, 1 << 64):
        with pytest.raises(ValueError):
            space.alloc(4096, align=align)
    with pytest.raises(MemoryError, match=r"no 1099511631872 bytes free, .* has 1048576"):
        space.alloc(1 << 40)
    assert space.stats()["busy_areas"] == 0


def test_an_overrun_ends_the_program():
    program = "import vmalloc, ctypes\na = vmalloc.Space(1 << 24).alloc(4096)\n" \
        "ctypes.memset(a.addr + 4096, 1, 1)\n"
    assert subprocess.run([sys.executable, "-c", program]).returncode == -11
