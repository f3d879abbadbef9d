//! Memory for code.

use super::{Owner, made, request};
use crate::dice::Dice;
use crate::world::{Sp, World};
use vmalloc::{Code, CodeBuffer};

/// Sealed code, the bytes of which are this value.
struct Sealed {
    code: Option<Code<Sp>>,
    value: u8,
}

pub(crate) fn code(world: &World, dice: &mut Dice) -> Option<Box<dyn Owner>> {
    let bytes = 1 + dice.below(40_000);
    let request = request(world, dice, bytes);
    let mut buffer = made(CodeBuffer::new(world.space.clone(), &request))?;
    assert!(buffer.iter().all(|byte| *byte == 0), "new memory for code is not zero");
    let value = dice.any() as u8;
    buffer.fill(value);
    match buffer.seal() {
        Ok(code) => Some(Box::new(Sealed { code: Some(code), value })),
        Err(refused) => {
            let same = refused.memory.iter().all(|byte| *byte == value);
            assert!(same, "a refused seal has changed bytes: {refused}");
            None
        }
    }
}

impl Owner for Sealed {
    fn check(&self) {
        let code = self.code.as_ref();
        assert!(code.is_none_or(|code| code.iter().all(|byte| *byte == self.value)), "code has changed");
    }

    fn change(&mut self, _: &World, dice: &mut Dice) {
        let Some(code) = self.code.take() else { return };
        // SAFETY: no thread runs it.
        let mut buffer = match unsafe { code.unseal() } {
            Ok(buffer) => buffer,
            Err(refused) => {
                self.code = Some(refused.memory);
                return self.check();
            }
        };
        assert!(buffer.iter().all(|byte| *byte == self.value), "unsealed code has changed");
        self.value = dice.any() as u8;
        buffer.fill(self.value);
        self.code = buffer.seal().ok();
    }

    fn end(self: Box<Self>, world: &World, _: &mut Dice) {
        self.code.iter().for_each(|code| world.freed(code.addr(), code.len()));
    }
}
