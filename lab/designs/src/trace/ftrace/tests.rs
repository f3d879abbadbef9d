use super::*;

const ALLOC: &str = "alloc_vmap_area: va_start: 18446683600572006400 size=20480 align=16384 \
                     vstart=0xffffc90000000000 vend=0xffffe8ffffffffff failed=0";

fn read(text: &str) -> Event {
    line(text).expect("readable").expect("an event")
}

fn kind(fields: &str) -> Result<Kind, Reason> {
    line(&format!("            bash-157     [001] .....     9.992079: {fields}"))
        .map(|event| event.expect("an event").kind)
}

#[test]
fn allocations_have_decimal_addresses_and_two_kinds_of_windows() {
    let window = PageRange::new(0xf_fffc_9000_0000, 0xf_fffe_9000_0000);
    let expected = Kind::Alloc { start: 18446683600572006400 >> 12, pages: 5, align: 4, within: window };
    assert_eq!(
        read(&format!("            bash-157     [001] .....     9.992079: {ALLOC}")),
        Event { time_ns: Some(9_992_079_000), cpu: 1, task: 157, kind: expected }
    );
    let module = "alloc_vmap_area: va_start: 18446744072641777664 size=20480 align=4096 \
                  vstart=0xffffffffc0236000 vend=0xffffffffff000000 failed=0";
    let window = PageRange::new(0xf_ffff_fffc_0236, 0xf_ffff_ffff_f000);
    let expected = Kind::Alloc { start: 18446744072641777664 >> 12, pages: 5, align: 1, within: window };
    assert_eq!(kind(module), Ok(expected));
}

#[test]
fn frees_purges_and_chunks_are_hexadecimal() {
    let free = "free_vmap_area_noflush: va_start=0xffffc90000129000 nr_lazy=17000 nr_lazy_max=16384";
    assert_eq!(kind(free), Ok(Kind::Free { start: 0xf_fffc_9000_0129 }));
    let purge = "purge_vmap_area_lazy: start=0xffff888000000000 end=0xffffffffc0240000 num_purged=3";
    let hull = PageRange::new(0xf_fff8_8800_0000, 0xf_ffff_fffc_0240);
    assert_eq!(kind(purge), Ok(Kind::Purge { hull, areas: 3 }));
    let empty = "purge_vmap_area_lazy: start=0xffffffffffffffff end=0x0 num_purged=0";
    assert_eq!(kind(empty), Ok(Kind::Purge { hull: None, areas: 0 }));
    for (name, expected) in [
        ("percpu_create_chunk", Kind::ChunkMade { base: 0xf_fffe_e4bb_fa00 }),
        ("percpu_destroy_chunk", Kind::ChunkGone { base: 0xf_fffe_e4bb_fa00 }),
    ] {
        assert_eq!(kind(&format!("{name}: base_addr=ffffee4bbfa00000")), Ok(expected));
    }
}

#[test]
fn task_names_may_hold_any_characters() {
    for (head, task, cpu, time_ns) in [
        ("           <...>-42      [003] .....     0.000000", 42, 3, Some(0)),
        ("          <idle>-0       [000] d.s2.     1.5", 0, 0, Some(1_500_000_000)),
        ("     kworker/1:2-150     [001] .N...     5.301184", 150, 1, Some(5_301_184_000)),
        ("  my task [7] -3-9       [127] d..1.     5.301184", 9, 127, Some(5_301_184_000)),
        ("   a: b [001] c-150     [001] dNh1.     5.3", 150, 1, Some(5_300_000_000)),
        ("x-1", 0, 0, None),
        ("            bash-157     (    157) [001] .....     1.0", 157, 1, Some(1_000_000_000)),
        ("            bash-157     (-------) [001] ....     1.0", 157, 1, Some(1_000_000_000)),
        ("            bash-157     [001]     1.0", 157, 1, Some(1_000_000_000)),
        ("            bash-157     [001] ..... 123456789", 157, 1, None),
        ("#bash-157     [001] .....     1.0", 157, 1, Some(1_000_000_000)),
    ] {
        let found = line(&format!("{head}: {ALLOC}"));
        if time_ns.is_none() && task == 0 {
            assert_eq!(found, Err(Reason::Strange), "{head}");
            continue;
        }
        let found = found.expect(head).expect(head);
        assert_eq!((found.task, found.cpu, found.time_ns), (task, cpu, time_ns), "{head}");
    }
}

#[test]
fn an_allocation_that_failed_has_no_address() {
    let failed =
        ALLOC.replace("18446683600572006400", "18446673704965373951").replace("failed=0", "failed=1");
    assert_eq!(kind(&failed), Ok(Kind::Failed { pages: 5 }));
}

#[test]
fn lines_of_other_kinds_are_recognized() {
    for (text, known) in [
        ("# tracer: nop", Known::Header),
        ("#              | |         |   |||||     |         |", Known::Header),
        ("##### CPU 1 buffer started ####", Known::Header),
        ("", Known::Header),
        ("CPU:1 [LOST 123 EVENTS]", Known::Lost(123)),
        (" => alloc_vmap_area", Known::Other),
        ("  bash-1 [000] ..... 1.0: percpu_alloc_percpu: call_site=f+0x1 reserved=0", Known::Other),
        ("  bash-1 [000] ..... 1.0: sched_switch: prev_comm=a-1 [001] x", Known::Other),
    ] {
        assert_eq!(line(text), Ok(Err(known)), "{text}");
    }
}

#[test]
fn damage_names_the_field() {
    for (from, to, name) in [
        ("18446683600572006400", "18446683600572006401", "va_start"),
        ("18446683600572006400", "ffffc90000066000", "va_start"),
        ("18446683600572006400", "18446744073709547520", "va_start"),
        ("size=20480", "size=0", "size"),
        ("size=20480", "size=18446744073709551616", "size"),
        ("size=20480", "sized=20480", "size"),
        ("align=16384", "align=3", "align"),
        ("align=16384", "align=0", "align"),
        ("vend=0xffffe8ffffffffff", "vend=0xffffc90000000000", "vstart and vend"),
        (" failed=0", "", "failed"),
        ("failed=0", "failed=", "failed"),
    ] {
        let damaged = ALLOC.replace(from, to);
        assert_ne!(damaged, ALLOC);
        assert_eq!(kind(&damaged), Err(Reason::Field(name)), "{damaged}");
    }
    assert_eq!(kind(&format!("{ALLOC} more")), Err(Reason::Trailing));
    assert_eq!(kind(&format!("{ALLOC}1x")), Err(Reason::Field("failed")));
    for strange in ["bash-157", "bash-157 [001] .....", "[", "bash [001] ..... 1.0: x: y", "a-1 [1] ... 1.0:"]
    {
        assert_eq!(line(strange), Err(Reason::Strange), "{strange}");
    }
}
