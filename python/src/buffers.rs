//! Spaces and areas as objects of Python.

use pyo3::exceptions::{PyBufferError, PyMemoryError, PyOSError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vmalloc_linux::{Buffer, Config, Linux, Options, Request, Space as LinuxSpace, Zeroed, open, page_bytes};

/// A span of addresses, from which areas are allocated.
#[pyclass(module = "vmalloc", frozen)]
pub(crate) struct Space(Arc<LinuxSpace<Linux>>);

/// Memory of its own, with a guard page behind it. It is given back with its last reader.
///
/// Threads may use it at once, where the interpreter has no lock of its own. So it is frozen, which
/// needs no borrow, and its state has a lock. Nothing of Python is called under that: a destructor
/// that the interpreter runs there might ask for it again.
#[pyclass(module = "vmalloc", frozen)]
pub(crate) struct Area(Mutex<State>);

/// The state of an area.
struct State {
    /// `None` once it was freed.
    buffer: Option<Memory>,
    /// Views of it that there are.
    exports: usize,
}

type Memory = Buffer<Arc<LinuxSpace<Linux>>, Zeroed>;

#[pymethods]
impl Space {
    #[new]
    #[pyo3(signature = (bytes=None))]
    fn new(bytes: Option<usize>) -> PyResult<Self> {
        let options = match bytes {
            None => Options::new(),
            Some(0) => return Err(PyValueError::new_err("a space has one byte at least")),
            Some(bytes) => {
                let whole = bytes.checked_next_multiple_of(page_bytes());
                Options::new().exactly(whole.ok_or(PyValueError::new_err("more bytes than there are"))?)
            }
        };
        let space = open(options.frame_bytes(0), Config::default());
        space.map(Self).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Returns a new area of `n` zeros.
    #[pyo3(signature = (n, tag=None))]
    fn alloc(&self, py: Python<'_>, n: usize, tag: Option<&str>) -> PyResult<Area> {
        if n == 0 || isize::try_from(n).is_err() {
            return Err(PyValueError::new_err(
                "an area has one byte at least, and no more than can be counted",
            ));
        }
        let request = Request::new(n).zeroed();
        let request = tag.map_or(request, |tag| Request::new(n).zeroed().tag(tag));
        let made = py.detach(|| Buffer::new(Arc::clone(&self.0), &request));
        let buffer = made.map_err(|error| PyMemoryError::new_err(error.to_string()))?;
        Ok(Area(Mutex::new(State { buffer: Some(buffer), exports: 0 })))
    }

    /// Gives everything that was freed back to the system.
    fn purge(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.purge()).map(drop).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Returns counts, in bytes unless the name says otherwise.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        counts(py, &self.0)
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
        match (state.exports, state.buffer.take()) {
            (0, Some(memory)) => Ok(memory),
            (_, None) => Err(PyValueError::new_err(FREED)),
            (views, memory) => {
                state.buffer = memory;
                Err(PyBufferError::new_err(format!("{views} views of the area are there")))
            }
        }
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

const FREED: &str = "the area was freed";

#[pymethods]
impl Area {
    /// The address of its first byte.
    #[getter]
    fn address(&self) -> PyResult<usize> {
        self.ask(Buffer::addr)
    }

    fn __len__(&self) -> PyResult<usize> {
        self.ask(|memory| memory.len())
    }

    /// Gives it back now: a `BufferError` while a view of it is there.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        let memory = self.take()?;
        py.detach(|| drop(memory));
        Ok(())
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
