//! Where a check has failed.

/// Prints what its function returns when it is dropped in a panic: the seed of a random program,
/// the settings of a machine.
#[must_use]
pub struct Told<F: Fn() -> String>(pub F);

impl<F: Fn() -> String> Drop for Told<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in: {}", self.0());
        }
    }
}
