//! Initializers of structs whose size is in front: zeros, each written, so that no compiler warns.

use syn::Type;

/// Returns the macro that initializes the struct `name`.
pub(super) fn of(name: &str, fields: &[Type]) -> String {
    let zeros: Vec<_> = fields.iter().skip(1).map(zero).collect();
    let mut text = format!("#define {}_INIT \\\n    {{ sizeof({name})", name.to_uppercase());
    for zero in zeros {
        text += ", ";
        text += zero;
    }
    text + " }\n"
}

fn zero(field: &Type) -> &'static str {
    if matches!(field, Type::Array(_)) { "{ 0 }" } else { "0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_have_braces_of_their_own() {
        let fields = ["usize", "u64", "[c_char; 32]"].map(|text| syn::parse_str(text).unwrap());
        assert_eq!(of("vm_x", &fields), "#define VM_X_INIT \\\n    { sizeof(vm_x), 0, { 0 } }\n");
    }
}
