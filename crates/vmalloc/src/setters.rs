//! Builders of settings.

/// Writes a method of its name for each field, which sets it.
macro_rules! setters {
    ($($field:ident: $type:ty $(=> $wrap:ident)?;)*) => {$(
        #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
        pub const fn $field(mut self, $field: $type) -> Self {
            self.$field = $($wrap)? ($field);
            self
        }
    )*};
}
