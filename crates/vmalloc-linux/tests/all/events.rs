//! Events: a subscriber is told of growth, purges and refusals.

use crate::common::{in_own_process, page_bytes};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use vmalloc_linux::{LinuxOptions, SpaceOptions, open};

/// Remembers every event as text: the name and the fields, `bytes=4096`.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl Subscriber for Told {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "vmalloc"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(format!("{} ", event.metadata().level()));
        event.record(&mut text);
        self.0.lock().expect("no panic").push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Told {
    /// Returns what was told while `body` ran.
    fn during(&self, body: impl FnOnce()) -> Vec<String> {
        tracing::subscriber::with_default(self.clone(), body);
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

#[test]
fn a_subscriber_is_told_of_reservations_growth_purges_and_refusals() {
    in_own_process(|| {
        let told = Told::default();
        let options =
            LinuxOptions::new().drain_thread(false).max_bytes(64 << 20).frame_bytes(4 * page_bytes());
        let mut space = None;
        let reservation = told.during(|| space = open(options, SpaceOptions::default()).ok());
        let space = space.expect("a space");
        // A kernel without guard marks refuses one as well.
        assert_eq!(reservation[0], format!("DEBUG message=reservation asked={0} bytes={0} ", 64 << 20));
        let mut buffer = None;
        let growth = told.during(|| buffer = space.zeroed_buffer(40 << 20).ok());
        let addr = buffer.as_ref().expect("room").addr();
        assert_eq!(growth, [format!("DEBUG message=growth addr={addr} bytes={} ", 40 << 20)]);

        let purge = told.during(|| {
            drop(buffer);
            space.purge().expect("nothing refuses");
        });
        assert_eq!(purge, [format!("DEBUG message=purge ranges=1 bytes={} ", (40 << 20) + page_bytes())]);

        let _taken = space.frames(1).expect("one of four");
        let refusal = told.during(|| assert!(space.frames(4).is_err()));
        let wanted = concat!(
            "WARN message=refusal call=\"taking frames (too few are free)\" ",
            "fault=out of memory code=12 ",
        );
        assert!(refusal.iter().any(|text| text == wanted), "{refusal:?}");
    });
}
