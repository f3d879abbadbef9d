use super::super::tests::area;
use super::canvas::ROW_HEIGHT;
use super::*;
use roxmltree::{Document, Node};

fn parse(text: &str) -> Document<'_> {
    Document::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The rectangles of a class: x, y, width, height and words.
fn rects(document: &Document<'_>, class: Class) -> Vec<([f64; 4], String)> {
    let key = format!("b-{}", class.key());
    let in_view = |node: &Node<'_, '_>| node.attribute("class") == Some("view");
    let view = document.descendants().find(in_view).expect("a view");
    let group = view.children().find(|node| node.attribute("class") == Some(&key));
    let rects = group.into_iter().flat_map(|group| group.children());
    let told = |rect: Node<'_, '_>| {
        let value = |name| rect.attribute(name).expect(name).parse().expect("a number");
        (
            ["x", "y", "width", "height"].map(value),
            rect.first_element_child().expect("words").text().expect("words").into(),
        )
    };
    rects.map(told).collect()
}

#[test]
fn areas_are_rectangles_where_their_addresses_are() {
    let areas = vec![area(2, 4, Class::Vmalloc), area(14, 4, Class::Lazy)];
    let text = picture("a", &[Strip::new("s", 0, 32 << 12, areas)]).into_string();
    let document = parse(&text);
    assert_eq!(
        rects(&document, Class::Vmalloc),
        [([128.0, 0.0, 256.0, 14.0], "0x2000 \u{2013} 0x6000\n16 KiB vmalloc, 4 KiB of it guard".into())]
    );
    let lazy: Vec<_> = rects(&document, Class::Lazy).into_iter().map(|(rect, _)| rect).collect();
    assert_eq!(lazy, [[896.0, 0.0, 128.0, 14.0], [0.0, 17.0, 128.0, 14.0]]);
    let free: Vec<_> =
        rects(&document, Class::Free).into_iter().map(|(rect, _)| (rect[0], rect[2])).collect();
    assert_eq!(free, [(0.0, 128.0), (384.0, 512.0), (128.0, 896.0)]);
    let guards = document.descendants().find(|node| node.attribute("class") == Some("guards"));
    assert_eq!(guards.and_then(|path| path.attribute("d")), Some("M320 0h64v14h-64zM64 17h64v14h-64z"));
}

#[test]
fn a_long_gap_is_folded_with_its_size_on_it() {
    let areas = vec![area(0, 1, Class::Vmalloc), area(1 << 28, 1, Class::Vmalloc)];
    let text = picture("a", &[Strip::around("s", areas).expect("areas")]).into_string();
    let document = parse(&text);
    let note = document.descendants().find(|node| node.attribute("class") == Some("note"));
    assert_eq!(note.and_then(|note| note.text()), Some("1023.9 GiB free"));
    assert_eq!(rects(&document, Class::Vmalloc).len(), 2);
}

#[test]
fn the_legend_has_totals() {
    let areas = vec![area(2, 4, Class::Vmalloc), area(8, 4, Class::Vmalloc), area(14, 4, Class::Ioremap)];
    let text = picture("a", &[Strip::new("s", 0, 32 << 12, areas)]).into_string();
    for told in
        ["vmalloc<tspan class=\"dim\" dx=\"6\">32 KiB in 2 areas", "16 KiB in 1 area<", "80 KiB in 4 gaps"]
    {
        assert!(text.contains(told), "{told}");
    }
}

#[test]
fn labels_may_hold_any_characters() {
    let label = "<script>alert('1')</script>\" onload=\"x ]]> &amp; \u{0}";
    let mut odd = area(2, 4, Class::Other);
    odd.label = Some(label.into());
    let text = picture(label, &[Strip::new(label, 0, 32 << 12, vec![odd])]).into_string();
    let document = parse(&text);
    assert_eq!(document.descendants().filter(|node| node.has_tag_name("script")).count(), 1);
    let words = &rects(&document, Class::Other)[0].1;
    assert!(words.ends_with(&label.replace('\0', "\u{fffd}")), "{words}");
}

#[test]
fn many_areas_become_cells_that_tell_their_counts() {
    let areas: Vec<_> = (0..100_000).map(|index| area(index * 4, 3, Class::Vmalloc)).collect();
    let text = picture("a", &[Strip::around("s", areas).expect("areas")]).into_string();
    let document = parse(&text);
    let elements = document.descendants().filter(Node::is_element).count();
    assert!(elements < MOST_ELEMENTS, "{elements}");
    let cells = rects(&document, Class::Vmalloc);
    assert!(cells.len() > 1000, "{}", cells.len());
    let ([.., height], words) = &cells[10];
    assert!((height / ROW_HEIGHT - 0.75).abs() < 0.02, "{height}");
    assert!(words.contains("in use, most of it vmalloc\n") && words.ends_with(" areas"), "{words}");
}

#[test]
fn empty_picture_is_well_formed() {
    parse(&picture("", &[]).into_string());
    parse(&picture("", &[Strip::new("s", 0, 0, Vec::new())]).into_string());
}
