use super::super::rows::Cell;
use super::*;
use crate::value::Value;

const TEXT: &[u8] = include_bytes!("../../../tests/data/otg-text.omsp");
const BINARY: &[u8] = include_bytes!("../../../tests/data/otg-binary.omsp");
const FILTERS: &[u8] = include_bytes!("../../../tests/data/otg-filters-text.omsp");

type Refused = Vec<(Option<u8>, Reason, u64)>;

/// Rows by index, and what was refused.
fn read(octets: &[u8], piece: usize) -> (Vec<usize>, Refused) {
    let mut decoder = Decoder::default();
    for piece in octets.chunks(piece) {
        decoder.feed(piece).unwrap();
    }
    decoder.finish();
    let batch = decoder.take();
    let mut counts = vec![0; 4];
    for row in batch.rows.iter() {
        let defined = batch.definitions.iter().find(|d| d.stream == row.stream);
        counts[usize::from(defined.unwrap().index)] += 1;
    }
    (counts, batch.refused.iter().collect())
}

#[test]
fn recorded_sessions_are_read_in_pieces_of_any_size() {
    for piece in [1, 7, 100, usize::MAX] {
        assert_eq!(
            read(TEXT, piece),
            (vec![6, 3, 19, 0], vec![(Some(2), Reason::Nul, 1)])
        );
        assert_eq!(read(BINARY, piece), (vec![4, 0, 15, 0], vec![]));
        assert_eq!(read(FILTERS, piece), (vec![0, 4, 3, 0], vec![]));
    }
}

const HEADER: &str = "protocol: 5\ndomain: d\nstart-time: 1\nsender-id: s\napp-name: a\nschema: 1 a_p x:int32 y:string \n";

fn text(rows: &str) -> (Vec<usize>, Refused) {
    read(format!("{HEADER}\n{rows}").as_bytes(), usize::MAX)
}

#[test]
fn a_bad_line_is_counted_and_the_lines_after_it_are_kept() {
    let long = "y".repeat(ROW_OCTETS_MAX);
    let rows = format!(
        "0.1\t1\t1\t5\ta\nrubbish\n\n0.1\t9\t1\t5\n0.1\t1\t2\t0x10\ta\n0.1\t1\t3\t5\n0.1\t1\t4\t5\t{long}\n0.2\t1\t5\t6\tb\n0.3\t1\t6"
    );
    let (counts, refused) = text(&rows);
    assert_eq!(counts[1], 2);
    assert_eq!(
        refused,
        [
            (None, Reason::Head, 1),
            (Some(1), Reason::FieldCount, 1),
            (Some(1), Reason::Value, 1),
            (Some(1), Reason::TooLong, 1),
            (Some(1), Reason::Truncated, 1),
            (Some(9), Reason::UnknownStream, 1),
        ]
    );
}

#[test]
fn a_line_without_an_end_takes_no_memory() {
    let mut decoder = Decoder::default();
    decoder.feed(format!("{HEADER}\n").as_bytes()).unwrap();
    for _ in 0..100 {
        decoder.feed(&[b'x'; 65536]).unwrap();
        assert!(decoder.pending.len() <= ROW_OCTETS_MAX);
    }
    decoder.feed(b"\n0.1\t1\t1\t5\ta\n").unwrap();
    let batch = decoder.take();
    assert_eq!((batch.rows.len(), batch.refused.total()), (1, 1));
}

#[test]
fn a_stream_may_be_defined_after_the_header_and_anew() {
    let rows = "0.1\t0\t1\t.\tschema\t2 a_late z:double\n0.2\t2\t1\t1.5\n0.3\t0\t2\t.\tschema\t2 a_late z:bool\n0.4\t2\t2\tT\n\
        0.5\t0\t3\t.\tdomain\tother\n0.6\t0\t4\t.a_p.x\tunit\tm\n";
    let (counts, refused) = text(rows);
    assert_eq!((counts, refused), (vec![1, 0, 2, 0], vec![]));
}

#[test]
fn streams_defined_without_end_end_the_session_before_they_take_much_memory() {
    let mut decoder = Decoder::default();
    decoder.feed(format!("{HEADER}\n").as_bytes()).unwrap();
    let defined = (0..DEFINITIONS_MAX).take_while(|number| {
        let fields: String = (0..128)
            .map(|f| format!(" a_long_name_{number}_{f}:int32"))
            .collect();
        let row = format!("0.1\t0\t1\t.\tschema\t2 a_late{fields}\n");
        decoder.feed(row.as_bytes()).is_ok()
    });
    assert!((100..300).contains(&defined.count()));
}

#[test]
fn packets_are_found_again_after_junk_and_within_a_wrong_length() {
    let start = BINARY
        .windows(3)
        .position(|w| w == [0xAA, 0xAA, 1])
        .unwrap();
    let (header, packets) = BINARY.split_at(start);
    let good = read(BINARY, usize::MAX).0;
    let junk = [header, b"junk\xAA\xAA\x01\x00", packets].concat();
    let (counts, refused) = read(&junk, usize::MAX);
    assert_eq!(counts, good);
    assert!(!refused.is_empty());
    // A length that reaches past the end swallows nothing but its own packet.
    let mut wrong = BINARY.to_vec();
    wrong[start + 3] = 0xFF;
    let (counts, refused) = read(&wrong, 10);
    assert_eq!(counts, [good[0] - 1, good[1], good[2], good[3]]);
    assert_eq!(refused, [(Some(0), Reason::Packet, 1)]);
}

#[test]
fn a_header_that_cannot_be_is_refused() {
    for (from, to) in [
        ("protocol: 5", "protocol: 6"),
        ("protocol: 5", "protocol: 0"),
        ("domain: d", "domain: ../../x"),
        ("domain: d", "domain: /etc/x"),
        ("domain: d", "domain: .hidden"),
        ("domain: d\n", ""),
        ("app-name: a", "app-name"),
        ("app-name: a", "app-name: a\0b"),
        ("app-name: a", &format!("app-name: {}", "a".repeat(129))),
        ("content: text", "content: morse"),
        ("1 a_p", "1 a-lin"),
        ("1 a_p", "256 a_p"),
        ("x:int32", "x:int33"),
    ] {
        let header = format!("{HEADER}content: text\n\n").replace(from, to);
        assert!(Decoder::default().feed(header.as_bytes()).is_err(), "{to}");
    }
    let old = "protocol: 1\nexperiment-id: d\nstart_time: 1\nsender-id: s\nsomething: new\nschema: 1 a x:long\n\n0.1\t1\t1\t-5\n";
    let mut decoder = Decoder::default();
    decoder.feed(old.as_bytes()).unwrap();
    let batch = decoder.take();
    let cells: Vec<Cell<'_>> = batch.rows.row(0).unwrap().cells().collect();
    assert_eq!(cells, [Cell::Int(-5)]);
}

/// A session of blobs in packets.
fn blobs(rows: &[&[u8]]) -> Vec<u8> {
    let header = HEADER.replace("x:int32 y:string", "b:blob") + "content: binary\n\n";
    let mut session = header.into_bytes();
    for (blob, number) in rows.iter().zip(1..) {
        binary::write_row(&mut session, 0.5, 1, number, &[Value::Blob(blob)]);
    }
    session
}

#[test]
fn what_lies_in_a_packet_that_is_refused_is_no_row() {
    let inner = blobs(&[b"inner", b"inner"]);
    let start = inner.windows(2).position(|it| it == binary::SYNC);
    let inner = inner[start.unwrap()..].repeat(2000);
    let long = inner.iter().copied().cycle().take(ROW_OCTETS_MAX);
    let long: Vec<u8> = long.collect();
    let too_long = (Some(1), Reason::TooLong, 1);
    for piece in [100_000, usize::MAX] {
        let all = blobs(&[b"x", &long, b"y"]);
        let (counts, refused) = read(&all, piece);
        assert_eq!((counts[1], refused), (2, vec![too_long]));
        // A session that ends within.
        let (counts, refused) = read(&all[..all.len() - 100], piece);
        assert_eq!((counts[1], refused), (1, vec![too_long]));
        let cut = blobs(&[b"x", &inner]);
        let (counts, refused) = read(&cut[..cut.len() - 1], piece);
        let truncated = (Some(1), Reason::Truncated, 1);
        assert_eq!((counts[1], refused), (1, vec![truncated]));
        // A value with a type that there is not, before a blob.
        let mut odd = blobs(&[b"x", &inner, b"y"]);
        let at = odd.windows(3).position(|it| it == [0xAA, 0xAA, 2]).unwrap();
        odd[at + 7] = 2;
        odd[at + 7 + 13] = 0x7F;
        let (counts, refused) = read(&odd, piece);
        let wrong = (Some(1), Reason::Packet, 1);
        assert_eq!((counts[1], refused), (2, vec![wrong]));
    }
}

#[test]
fn a_row_without_room_is_skipped_to_its_end() {
    let inner = blobs(&[b"inner"]);
    let long = inner.repeat(1000);
    let packets = blobs(&[b"x", &long, b"y"]);
    let lines = format!(
        "{HEADER}\n0.1\t1\t1\t5\ta\n0.1\t1\t2\t5\t{}\n0.1\t1\t3\t5\ta\n",
        "y".repeat(100_000)
    );
    for (session, index) in [(packets, None), (lines.into_bytes(), Some(1))] {
        let mut decoder = Decoder::default();
        for piece in session.chunks(1000) {
            decoder.feed(piece).unwrap();
            if decoder.pending_octets() > 50_000 {
                assert!(decoder.awaited_octets().is_none_or(|all| all > 100_000));
                decoder.skip_row();
                assert_eq!(decoder.pending_octets(), 0);
            }
        }
        decoder.finish();
        let batch = decoder.take();
        let refused: Refused = batch.refused.iter().collect();
        assert_eq!(refused, [(index, Reason::NoRoom, 1)]);
        let numbers: Vec<i64> = batch.rows.iter().map(|row| row.sequence).collect();
        assert_eq!(numbers, [1, 3]);
    }
}

#[test]
fn what_a_long_row_took_is_given_back() {
    let mut decoder = Decoder::default();
    for piece in blobs(&[&vec![7; 1 << 20], b"x"]).chunks(1000) {
        decoder.feed(piece).unwrap();
        assert!(decoder.pending.capacity() <= 2 << 20);
    }
    assert_eq!(decoder.take().rows.len(), 2);
    decoder.feed(b"\xAA").unwrap();
    assert!(decoder.pending.capacity() <= SPARE_OCTETS);
}
