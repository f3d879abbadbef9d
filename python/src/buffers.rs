//! Spaces and areas as objects of Python.

use pyo3::exceptions::{PyBufferError, PyMemoryError, PyOSError, PyOverflowError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vmalloc_linux::{
    AllocError, AreaError, Buffer, Linux, LinuxOptions, Request, Space as LinuxSpace, SpaceOptions, Zeroed,
    open, page_bytes,
};

/// A span of `size` bytes of addresses, from which areas are allocated: as many as suit the machine, if none is given.
#[pyclass(module = "vmalloc", frozen)]
pub(crate) struct Space(Arc<LinuxSpace<Linux>>);

/// Memory of zeros that any reader of buffers can use, with a guard page behind it.
///
/// It is freed by free(), by the end of its with block, or with its last reader. len() is its size in bytes.
// Threads may use it at once, where the interpreter has no lock of its own. So it is frozen, which needs no
// borrow, and its state has a lock. Nothing of Python is called under that: a destructor that the interpreter
// runs there might ask for it again.
#[pyclass(module = "vmalloc", frozen)]
pub(crate) struct Area(Mutex<State>);

/// What a space knows of the area at an address.
#[pyclass(module = "vmalloc", frozen, get_all, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct AreaInfo {
    /// The address of its first byte.
    addr: usize,
    /// Its size in bytes: whole pages, without the guard page.
    size: usize,
    /// The tag that it was allocated with, or None.
    tag: Option<String>,
    /// The number that it was allocated with, or 0.
    record: u64,
}

/// The state of an area.
struct State {
    /// `None` once it was freed.
    buffer: Option<Memory>,
    /// Views of it that there are.
    exports: usize,
}

type Memory = Buffer<Arc<LinuxSpace<Linux>>, Zeroed>;

/// A number that Python gave, below 2^64. A negative or larger one is a `ValueError`.
pub(crate) struct Count(pub(crate) usize);

impl FromPyObject<'_, '_> for Count {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        number.extract().map(Self).map_err(|error| {
            if error.is_instance_of::<PyOverflowError>(number.py()) {
                PyValueError::new_err(format!("{} is not from 0 to {}", *number, usize::MAX))
            } else {
                error
            }
        })
    }
}

#[pymethods]
impl Space {
    #[new]
    #[pyo3(signature = (size=None))]
    fn new(size: Option<Count>) -> PyResult<Self> {
        let options = match size {
            None => LinuxOptions::new(),
            Some(Count(0)) => return Err(PyValueError::new_err("a space has one byte at least")),
            Some(Count(bytes)) => {
                let whole = bytes.checked_next_multiple_of(page_bytes());
                LinuxOptions::new()
                    .max_bytes(whole.ok_or(PyValueError::new_err("more bytes than there are"))?)
            }
        };
        let space = open(options.frame_bytes(0), SpaceOptions::default());
        space.map(Self).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Returns a new area of `size` zeros.
    ///
    /// Its address is a multiple of `align`, a power of two. find() returns the `tag`, of which 31 bytes are kept, and
    /// the `record`, a number of the caller's below 2^64.
    #[pyo3(
        signature = (size, *, align=Count(1), tag=None, record=Count(0)),
        text_signature = "($self, size, *, align=1, tag=None, record=0)"
    )]
    fn alloc(
        &self,
        py: Python<'_>,
        size: Count,
        align: Count,
        tag: Option<&str>,
        record: Count,
    ) -> PyResult<Area> {
        let request = Request::new(size.0).align(align.0).zeroed();
        let request = if record.0 == 0 { request } else { request.record(record.0 as u64) };
        let request = tag.map_or(request, |tag| request.tag(tag));
        let made = py.detach(|| Buffer::new(Arc::clone(&self.0), &request));
        let buffer = made.map_err(|error| refusal(&error))?;
        Ok(Area(Mutex::new(State { buffer: Some(buffer), exports: 0 })))
    }

    /// Returns what is known of the area that holds `addr`, at its start or inside; None if there is none.
    fn find(&self, addr: Count) -> Option<AreaInfo> {
        let info = self.0.find(addr.0)?;
        let tag = info.tag.map(|tag| tag.to_string());
        Some(AreaInfo { addr: info.addr, size: info.bytes, tag, record: info.record })
    }

    /// Gives everything that was freed back to the system.
    fn purge(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.purge()).map(drop).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Returns counts by name, in bytes where the name says so.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        counts(py, &self.0)
    }

    fn __repr__(&self) -> String {
        let (stats, shift) = (self.0.stats(), self.0.geometry().page_shift);
        format!("<vmalloc.Space of {} bytes, areas in use: {}>", stats.span_pages << shift, stats.busy_areas)
    }
}

/// Returns the exception for an allocation that failed, with figures in bytes.
fn refusal(error: &AllocError) -> PyErr {
    match error {
        AllocError::Request(error) => PyValueError::new_err(error.to_string()),
        _ => PyMemoryError::new_err(error.to_string()),
    }
}

#[pymethods]
impl AreaInfo {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let tag = (&self.tag).into_pyobject(py)?.repr()?;
        let Self { addr, size, record, .. } = self;
        Ok(format!("vmalloc.AreaInfo(addr={addr:#x}, size={size}, tag={tag}, record={record})"))
    }
}

/// Returns the counts of a space.
pub(crate) fn counts<'py>(py: Python<'py>, space: &LinuxSpace<Linux>) -> PyResult<Bound<'py, PyDict>> {
    let stats = py.detach(|| space.stats());
    let bytes = |pages: u64| pages.saturating_mul(1 << space.geometry().page_shift);
    let dict = PyDict::new(py);
    let all = [
        ("span_bytes", bytes(stats.span_pages)),
        ("free_bytes", bytes(stats.free_pages)),
        ("busy_areas", stats.busy_areas),
        ("busy_bytes", bytes(stats.busy_pages)),
        ("cached_areas", stats.cached_areas),
        ("cached_bytes", bytes(stats.cached_pages)),
        ("lazy_areas", stats.lazy_areas),
        ("lazy_bytes", bytes(stats.lazy_pages)),
        ("pooled_areas", stats.pooled_areas),
        ("pooled_bytes", bytes(stats.pooled_pages)),
        ("purges", stats.purges),
        ("purged_areas", stats.purged_areas),
        ("metadata_bytes", stats.metadata_bytes),
    ];
    all.into_iter().try_for_each(|(name, count)| dict.set_item(name, count))?;
    Ok(dict)
}

impl Area {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment: a panic leaves nothing half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask<T>(&self, question: impl FnOnce(&Memory) -> T) -> PyResult<T> {
        self.state().buffer.as_ref().map(question).ok_or_else(|| PyValueError::new_err(FREED))
    }

    /// Takes the memory out, if no view of it is there.
    fn take(&self) -> PyResult<Memory> {
        let mut state = self.state();
        state.unseen()?;
        state.buffer.take().ok_or_else(|| PyValueError::new_err(FREED))
    }

    /// Counts a view, and returns the memory that it shows: it stays until [`end_view`](Self::end_view).
    fn begin_view(&self) -> PyResult<(*mut c_void, isize)> {
        let mut state = self.state();
        let memory = state.buffer.as_mut().ok_or_else(|| PyBufferError::new_err(FREED))?;
        let shown = (memory.as_mut_ptr().cast(), memory.len() as isize);
        state.exports += 1;
        Ok(shown)
    }

    fn end_view(&self) {
        self.state().exports -= 1;
    }
}

impl State {
    /// Returns the memory, if it is there and no view of it is.
    fn unseen(&mut self) -> PyResult<&mut Memory> {
        match (&mut self.buffer, self.exports) {
            (None, _) => Err(PyValueError::new_err(FREED)),
            (Some(memory), 0) => Ok(memory),
            (Some(_), 1) => Err(PyBufferError::new_err("a view of the area is still there")),
            (Some(_), views) => {
                Err(PyBufferError::new_err(format!("{views} views of the area are still there")))
            }
        }
    }
}

const FREED: &str = "the area was freed";

#[pymethods]
impl Area {
    /// The address of its first byte.
    #[getter]
    fn addr(&self) -> PyResult<usize> {
        self.ask(Buffer::addr)
    }

    fn __len__(&self) -> PyResult<usize> {
        self.ask(|memory| memory.len())
    }

    /// Makes it larger or smaller: BufferError while a view of it is there.
    ///
    /// It may move to another address. Its content stays, new bytes are zeros.
    fn resize(&self, py: Python<'_>, size: Count) -> PyResult<()> {
        // The lock is let go before the thread attaches again: the thread that waits for it may be attached.
        py.detach(|| {
            let mut state = self.state();
            let memory = state.unseen()?;
            memory.resize(size.0).map_err(|error| match error {
                AreaError::Alloc(error) => refusal(&error),
                error => PyOSError::new_err(error.to_string()),
            })
        })
    }

    /// Frees it now: BufferError while a view of it is there.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        let memory = self.take()?;
        py.detach(|| drop(memory));
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().ask(|_| ())?;
        Ok(slf)
    }

    /// Frees it, if that was not done in the block.
    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        if self.state().buffer.is_some() { self.free(py) } else { Ok(()) }
    }

    fn __repr__(&self) -> String {
        self.state().buffer.as_ref().map_or("<vmalloc.Area, freed>".to_owned(), |memory| {
            format!("<vmalloc.Area at {:#x}, {} bytes>", memory.addr(), memory.len())
        })
    }

    /// # Safety
    /// The interpreter gives a view to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: the view is the interpreter's to fill; a failed call leaves no owner in it.
        unsafe { (*view).obj = std::ptr::null_mut() };
        let (start, len) = slf.get().begin_view()?;
        // SAFETY: the memory is the area's for as long as views are counted: `free` refuses, and the
        // view holds a reference to the object. Its length fits.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 0, flags) };
        if filled == -1 {
            slf.get().end_view();
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }

    /// # Safety
    /// The view was filled above.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.end_view();
    }
}
