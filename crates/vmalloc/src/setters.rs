//! Builders that only set fields.

/// Makes `const` methods that take a builder, set some of its fields, and return it.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($(
        $(#[$about:meta])*
        $name:ident($($argument:ident: $type:ty),*) { $($($field:ident).+ = $value:expr),+ }
    )+) => {$(
        $(#[$about])*
        #[inline(always)]
        pub const fn $name(mut self, $($argument: $type),*) -> Self {
            $(self.$($field).+ = $value;)+
            self
        }
    )+};
}
