//! Areas in address order, by callback.

use crate::answer::{self, Argument};
use crate::error::vmalloc_error;
use crate::find::vmalloc_area;
use crate::space::{on, vmalloc_space};
use libc::{c_char, c_int, c_void};
use std::fmt;
use vmalloc_linux::AreaInfo;

/// A function that is called for an area. The area is there during the call alone. Another answer
/// than 0 ends the walk.
pub type vmalloc_area_callback =
    Option<unsafe extern "C-unwind" fn(context: *mut c_void, area: *const vmalloc_area) -> c_int>;

/// A function that is called with text, which ends with no zero byte. Another answer than 0 ends
/// it.
pub type vmalloc_text_callback =
    Option<unsafe extern "C-unwind" fn(context: *mut c_void, text: *const c_char, bytes: usize) -> c_int>;

/// Calls `callback` for each area in use from the address `from` on, in address order. Returns 0
/// after the last, or the answer that ended the walk, which should be positive. No lock is held
/// over a callback: areas that come or go meanwhile may be missed or seen.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_walk(
    space: *const vmalloc_space,
    from: *const c_void,
    callback: vmalloc_area_callback,
    context: *mut c_void,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(number, detail; space => {
        // SAFETY: the caller gave the function and its context.
        let visit = unsafe { answer::asking(callback, context) }?;
        Ok(on!(&space.0, it => it.areas_from(from.addr()).find_map(visit)).unwrap_or(0))
    })
}

/// Calls `callback` for each area in use whose tag is `tag`, as `vmalloc_walk` does.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_find_tag(
    space: *const vmalloc_space,
    tag: *const c_char,
    callback: vmalloc_area_callback,
    context: *mut c_void,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(number, detail; space, tag = crate::input::name(tag) => {
        let tag = vmalloc_linux::Tag::new(tag.ok_or(Argument::Null)?);
        // SAFETY: the caller gave the function and its context.
        let visit = unsafe { answer::asking(callback, context) }?;
        let is_tagged = |area: &AreaInfo| area.tag == Some(tag);
        Ok(on!(&space.0, it => it.areas().filter(is_tagged).find_map(visit)).unwrap_or(0))
    })
}

/// Calls `callback` with parts of a text about all areas, one line each: addresses, size, owner,
/// kind. The idea is that of `/proc/vmallocinfo`. Returns 0 after the last, or the answer that
/// ended it.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_info(
    space: *const vmalloc_space,
    callback: vmalloc_text_callback,
    context: *mut c_void,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(number, detail; space => {
        let mut sink = Sink { callback: callback.ok_or(Argument::Null)?, context, answer: 0 };
        // An error is the callback's answer.
        let _ = on!(&space.0, it => fmt::write(&mut sink, format_args!("{}", it.vmallocinfo())));
        Ok(sink.answer)
    })
}

/// Hands text on to a callback.
struct Sink {
    callback: unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize) -> c_int,
    context: *mut c_void,
    answer: c_int,
}

impl fmt::Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the caller gave the function and its context.
        self.answer = unsafe { (self.callback)(self.context, text.as_ptr().cast(), text.len()) };
        if self.answer == 0 { Ok(()) } else { Err(fmt::Error) }
    }
}
