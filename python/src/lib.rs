//! The Python package `vmalloc`: see its README.
//!
//! ```text
//!  numpy_data.rs   numpy's data in a space of the process: functions that numpy calls, from any thread
//!  buffers.rs      spaces and areas as objects of Python
//! ```

mod buffers;
mod numpy_data;

use pyo3::prelude::*;

/// The compiled part of the package.
#[pymodule]
fn _vmalloc(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<buffers::Space>()?;
    module.add_class::<buffers::Area>()?;
    module.add_class::<buffers::AreaInfo>()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("DEFAULT_THRESHOLD", numpy_data::DEFAULT_THRESHOLD)?;
    module.add_function(wrap_pyfunction!(numpy_data::numpy_handler, module)?)?;
    module.add_function(wrap_pyfunction!(numpy_data::set_numpy_handler, module)?)?;
    module.add_function(wrap_pyfunction!(numpy_data::is_managed_address, module)?)?;
    module.add_function(wrap_pyfunction!(numpy_data::numpy_stats, module)?)?;
    Ok(())
}
