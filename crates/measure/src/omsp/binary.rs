//! A row as a packet: `AA AA`, a type, a length, then values that name their types. All integers are big-endian.
//!
//! A double outside a vector has 30 bits of mantissa: time of day in seconds has a grid of 2 s. So text is the default.

use super::reason::Reason;
use super::rows::Rows;
use super::text::{Json, RowHead};
use crate::schema::{Element, Schema, Type};
use crate::value::{Value, Vector};

/// The first octets of each packet.
pub const SYNC: [u8; 2] = [0xAA, 0xAA];
const SHORT: u8 = 0x01;
const LONG: u8 = 0x02;

/// Octets before the body of a short packet.
const SHORT_HEAD_OCTETS: usize = 5;
/// Octets before the body of a long packet.
const LONG_HEAD_OCTETS: usize = 7;

/// Octets of a text: its length has one, and 255 is not used.
const TEXT_OCTETS_MAX: usize = 254;

mod tag {
    pub const LONG: u8 = 0x01;
    pub const DOUBLE: u8 = 0x02;
    pub const NAN: u8 = 0x03;
    pub const TEXT: u8 = 0x04;
    pub const INT32: u8 = 0x05;
    pub const UINT32: u8 = 0x06;
    pub const INT64: u8 = 0x07;
    pub const UINT64: u8 = 0x08;
    pub const BLOB: u8 = 0x09;
    pub const GUID: u8 = 0x0A;
    pub const FALSE: u8 = 0x0B;
    pub const TRUE: u8 = 0x0C;
    pub const VECTOR: u8 = 0x0D;
    pub const ELEMENT_BOOL: u8 = 0x0E;
    pub const ELEMENT_DOUBLE: u8 = 0x0F;
}

/// 2^30: what a double's mantissa is counted in.
const MANTISSA_UNIT: f64 = 1_073_741_824.0;

/// Writes a row. Texts of more than 254 octets are cut, at a character.
pub fn write_row(out: &mut Vec<u8>, time_s: f64, index: u8, sequence: u64, values: &[Value<'_>]) {
    let mut body = Vec::new();
    body.push(u8::try_from(values.len()).unwrap_or(u8::MAX));
    body.push(index);
    body.push(tag::INT32);
    // A packet has 32 bits for the sequence number: after 2^32 - 1 it goes on from 0, as liboml2's does.
    let wrapped = u32::try_from(sequence & u64::from(u32::MAX)).unwrap_or_default();
    body.extend(wrapped.to_be_bytes());
    write_double(&mut body, time_s);
    for value in values {
        write_value(&mut body, value);
    }
    out.extend(SYNC);
    if let Ok(length) = u16::try_from(body.len()) {
        out.push(SHORT);
        out.extend(length.to_be_bytes());
    } else {
        out.push(LONG);
        out.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    }
    out.append(&mut body);
}

fn write_value(body: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Int32(number) => {
            body.push(tag::INT32);
            body.extend(number.to_be_bytes());
        }
        Value::Uint32(number) => {
            body.push(tag::UINT32);
            body.extend(number.to_be_bytes());
        }
        Value::Int64(number) => {
            body.push(tag::INT64);
            body.extend(number.to_be_bytes());
        }
        Value::Uint64(number) => {
            body.push(tag::UINT64);
            body.extend(number.to_be_bytes());
        }
        Value::Guid(number) => {
            body.push(tag::GUID);
            body.extend(number.to_be_bytes());
        }
        Value::Double(number) => write_double(body, *number),
        Value::Text(text) => {
            let end = (0..=TEXT_OCTETS_MAX.min(text.len()))
                .rev()
                .find(|end| text.is_char_boundary(*end));
            let cut = text.get(..end.unwrap_or(0)).unwrap_or_default();
            body.push(tag::TEXT);
            body.push(u8::try_from(cut.len()).unwrap_or_default());
            body.extend(cut.as_bytes());
        }
        Value::Blob(octets) => {
            body.push(tag::BLOB);
            body.extend(
                u32::try_from(octets.len())
                    .unwrap_or_default()
                    .to_be_bytes(),
            );
            body.extend(*octets);
        }
        Value::Bool(truth) => body.push(if *truth { tag::TRUE } else { tag::FALSE }),
        Value::Vector(vector) => write_vector(body, vector),
    }
}

fn write_vector(body: &mut Vec<u8>, vector: &Vector<'_>) {
    let count = u16::try_from(vector.len()).unwrap_or(u16::MAX);
    let most = usize::from(count);
    let mut head = |element: u8| {
        body.extend([tag::VECTOR, element]);
        body.extend(count.to_be_bytes());
    };
    match vector {
        Vector::Int32(all) => {
            head(tag::INT32);
            body.extend(all.iter().take(most).flat_map(|n| n.to_be_bytes()));
        }
        Vector::Uint32(all) => {
            head(tag::UINT32);
            body.extend(all.iter().take(most).flat_map(|n| n.to_be_bytes()));
        }
        Vector::Int64(all) => {
            head(tag::INT64);
            body.extend(all.iter().take(most).flat_map(|n| n.to_be_bytes()));
        }
        Vector::Uint64(all) => {
            head(tag::UINT64);
            body.extend(all.iter().take(most).flat_map(|n| n.to_be_bytes()));
        }
        Vector::Double(all) => {
            head(tag::ELEMENT_DOUBLE);
            body.extend(all.iter().take(most).flat_map(|n| n.to_be_bytes()));
        }
        Vector::Bool(all) => {
            head(tag::ELEMENT_BOOL);
            let octet = |truth: &bool| if *truth { tag::TRUE } else { tag::FALSE };
            body.extend(all.iter().take(most).map(octet));
        }
    }
}

fn write_double(body: &mut Vec<u8>, number: f64) {
    let Some((mantissa, exponent)) = split_double(number) else {
        body.extend([tag::NAN, 0, 0, 0, 0, 0]);
        return;
    };
    body.push(tag::DOUBLE);
    body.extend(mantissa.to_be_bytes());
    body.extend(exponent.to_be_bytes());
}

/// Mantissa in units of 2^-30 and exponent of a number `m · 2^x` with `0.5 ≤ |m| < 1`; `None` where the exponent does not fit.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "a mantissa below 1 times 2^30 fits 31 bits"
)]
fn split_double(number: f64) -> Option<(i32, i8)> {
    const EXPONENT_BIAS: i64 = 1022;
    if number == 0.0 {
        return Some((0, 0));
    }
    if !number.is_finite() {
        return None;
    }
    let raised = i64::try_from((number.to_bits() >> 52) & 0x7FF).ok()?;
    let exponent = i8::try_from(raised - EXPONENT_BIAS).ok()?;
    let mantissa = number / 2f64.powi(i32::from(exponent));
    Some(((mantissa * MANTISSA_UNIT).round() as i32, exponent))
}

/// The beginning of the packet that `place` lies within; `place` itself if a packet ends there. The octets must begin with a
/// packet.
pub(crate) fn row_start_before(octets: &[u8], place: usize) -> usize {
    let mut start = 0;
    while let Frame::Packet { head, body } = frame(octets.get(start..).unwrap_or_default()) {
        let end = start.saturating_add(head).saturating_add(body);
        if end > place {
            break;
        }
        start = end;
    }
    start
}

/// The result of a look for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A packet, of which all may be here or not: octets before its body, and those of its body.
    Packet { head: usize, body: usize },
    /// The octets that say its length are not here yet.
    Partial,
    /// Not the beginning of a packet.
    Not,
}

/// Looks at what begins at `octets`.
pub(super) fn frame(octets: &[u8]) -> Frame {
    let beginning = octets.get(..SYNC.len()).unwrap_or(octets);
    if !SYNC.starts_with(beginning) {
        return Frame::Not;
    }
    match octets.get(2) {
        None => Frame::Partial,
        Some(&SHORT) => match octets.get(3..SHORT_HEAD_OCTETS) {
            Some(&[high, low]) => Frame::Packet {
                head: SHORT_HEAD_OCTETS,
                body: usize::from(u16::from_be_bytes([high, low])),
            },
            _ => Frame::Partial,
        },
        Some(&LONG) => match octets.get(3..LONG_HEAD_OCTETS) {
            Some(&[a, b, c, d]) => {
                let body = usize::try_from(u32::from_be_bytes([a, b, c, d]));
                Frame::Packet {
                    head: LONG_HEAD_OCTETS,
                    body: body.unwrap_or(usize::MAX),
                }
            }
            _ => Frame::Partial,
        },
        Some(_) => Frame::Not,
    }
}

/// Octets of a body before its values: how many they are, index, number and time of the row.
pub(super) const BODY_HEAD_OCTETS: usize = 13;

/// The form of a body, as far as it is here. The length of a packet whose body is malformed is not to be believed either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// The body has as many well-formed values as it says, and nothing after them.
    Whole,
    /// The part that is here is well-formed; true where it is more than the octets before the values.
    Cut { has_head: bool },
    /// The octets are no body of that length.
    Wrong,
}

/// Looks at a body of so many octets, of which `octets` are here, from the first on.
pub(super) fn build(octets: &[u8], body_octets: usize) -> Build {
    let mut walk = Walk {
        octets: octets.get(..body_octets).unwrap_or(octets),
        at: 0,
        end: body_octets,
    };
    match walk.head() {
        Ok(count) => match walk.values(count) {
            Ok(()) => Build::Whole,
            Err(Stop::Cut) => Build::Cut { has_head: true },
            Err(Stop::Wrong) => Build::Wrong,
        },
        Err(Stop::Cut) => Build::Cut { has_head: false },
        Err(Stop::Wrong) => Build::Wrong,
    }
}

/// Why a walk through a body ends.
enum Stop {
    /// The next octets are not here yet.
    Cut,
    /// The octets are no body.
    Wrong,
}

/// A walk through a body that looks at tags and lengths alone.
struct Walk<'a> {
    octets: &'a [u8],
    at: usize,
    end: usize,
}

impl Walk<'_> {
    /// The number of values.
    fn head(&mut self) -> Result<u8, Stop> {
        let count = self.octet()?;
        self.skip(1)?;
        match self.octet()? {
            tag::INT32 | tag::LONG | tag::UINT32 => self.skip(4)?,
            _ => return Err(Stop::Wrong),
        }
        match self.octet()? {
            tag::DOUBLE => self.skip(5)?,
            _ => return Err(Stop::Wrong),
        }
        // Passed octets are here too.
        match self.at <= self.octets.len() {
            true => Ok(count),
            false => Err(Stop::Cut),
        }
    }

    fn values(&mut self, count: u8) -> Result<(), Stop> {
        for _ in 0..count {
            self.value()?;
        }
        match self.at == self.end {
            true if self.at <= self.octets.len() => Ok(()),
            true => Err(Stop::Cut),
            false => Err(Stop::Wrong),
        }
    }

    fn value(&mut self) -> Result<(), Stop> {
        let octets = match self.octet()? {
            tag::LONG | tag::INT32 | tag::UINT32 => 4,
            tag::DOUBLE | tag::NAN => 5,
            tag::INT64 | tag::UINT64 | tag::GUID => 8,
            tag::FALSE | tag::TRUE => 0,
            tag::TEXT => usize::from(self.octet()?),
            tag::BLOB => {
                let length = u32::from_be_bytes([
                    self.octet()?,
                    self.octet()?,
                    self.octet()?,
                    self.octet()?,
                ]);
                usize::try_from(length).map_err(|_| Stop::Wrong)?
            }
            tag::VECTOR => {
                let each = match self.octet()? {
                    tag::INT32 | tag::UINT32 => 4,
                    tag::INT64 | tag::UINT64 | tag::ELEMENT_DOUBLE => 8,
                    tag::ELEMENT_BOOL => 1,
                    _ => return Err(Stop::Wrong),
                };
                usize::from(u16::from_be_bytes([self.octet()?, self.octet()?])) * each
            }
            _ => return Err(Stop::Wrong),
        };
        self.skip(octets)
    }

    fn octet(&mut self) -> Result<u8, Stop> {
        let at = self.at;
        self.skip(1)?;
        self.octets.get(at).copied().ok_or(Stop::Cut)
    }

    fn skip(&mut self, octets: usize) -> Result<(), Stop> {
        let after = self.at.saturating_add(octets);
        if after > self.end {
            return Err(Stop::Wrong);
        }
        self.at = after;
        Ok(())
    }
}

/// A body that is read from its beginning; every step checks the octets left.
#[derive(Debug)]
pub(super) struct Body<'a> {
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    pub(super) const fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Reason> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Reason::Packet)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Reason> {
        self.take(N)?.try_into().map_err(|_| Reason::Packet)
    }

    fn octet(&mut self) -> Result<u8, Reason> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    /// The number of values, and what stands before them.
    pub(super) fn head(&mut self) -> Result<(u8, RowHead), Reason> {
        let count = self.octet()?;
        let index = self.octet()?;
        let sequence = match self.octet()? {
            tag::INT32 | tag::LONG => i32::from_be_bytes(self.array()?).into(),
            tag::UINT32 => u32::from_be_bytes(self.array()?).into(),
            _ => return Err(Reason::Packet),
        };
        let time_s = match self.octet()? {
            tag::DOUBLE => self.double()?,
            _ => return Err(Reason::Packet),
        };
        let head = RowHead {
            time_s,
            index,
            sequence,
        };
        Ok((count, head))
    }

    fn length(&mut self) -> Result<usize, Reason> {
        usize::try_from(u32::from_be_bytes(self.array()?)).map_err(|_| Reason::Packet)
    }

    fn double(&mut self) -> Result<f64, Reason> {
        let mantissa = i32::from_be_bytes(self.array()?);
        let exponent = i8::from_be_bytes(self.array()?);
        Ok(f64::from(mantissa) / MANTISSA_UNIT * 2f64.powi(i32::from(exponent)))
    }

    /// Reads the values of a row into the cells of `rows`.
    pub(super) fn values(
        &mut self,
        rows: &mut Rows,
        count: u8,
        schema: &Schema,
    ) -> Result<(), Reason> {
        if usize::from(count) != schema.fields().len() {
            return Err(Reason::FieldCount);
        }
        for field in schema.fields() {
            self.value(rows, field.kind)?;
        }
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Reason::Packet)
        }
    }

    fn value(&mut self, rows: &mut Rows, kind: Type) -> Result<(), Reason> {
        match (kind, self.octet()?) {
            (Type::Int32, tag::INT32 | tag::LONG) => {
                rows.int(i32::from_be_bytes(self.array()?).into());
            }
            (Type::Uint32, tag::UINT32) => rows.uint(u32::from_be_bytes(self.array()?).into()),
            (Type::Int64, tag::INT64) => rows.int(i64::from_be_bytes(self.array()?)),
            (Type::Uint64, tag::UINT64) => rows.uint(u64::from_be_bytes(self.array()?)),
            (Type::Guid, tag::GUID) => rows.guid(u64::from_be_bytes(self.array()?)),
            (Type::Double, tag::DOUBLE) => {
                let number = self.double()?;
                rows.double(number);
            }
            (Type::Double, tag::NAN) => {
                self.take(5)?;
                rows.null();
            }
            (Type::Bool, tag::FALSE) => rows.bool(false),
            (Type::Bool, tag::TRUE) => rows.bool(true),
            (Type::Text, tag::TEXT) => {
                let length = usize::from(self.octet()?);
                let text = std::str::from_utf8(self.take(length)?).map_err(|_| Reason::NotUtf8)?;
                if text.contains('\0') {
                    return Err(Reason::Nul);
                }
                rows.text(std::iter::once(text));
            }
            (Type::Blob, tag::BLOB) => {
                let length = self.length()?;
                let octets = self.take(length)?;
                rows.blob(|out| {
                    out.extend(octets);
                    Ok(())
                })?;
            }
            (Type::Vector(element), tag::VECTOR) => {
                let json = self.vector(element)?;
                rows.text(std::iter::once(json.as_str()));
            }
            _ => return Err(Reason::Value),
        }
        Ok(())
    }

    fn vector(&mut self, element: Element) -> Result<String, Reason> {
        let kind = self.octet()?;
        let count = u16::from_be_bytes(self.array()?);
        let mut json = Json::default();
        for _ in 0..count {
            match (element, kind) {
                (Element::Int32, tag::INT32) => json.add(i32::from_be_bytes(self.array()?)),
                (Element::Uint32, tag::UINT32) => json.add(u32::from_be_bytes(self.array()?)),
                (Element::Int64, tag::INT64) => json.add(i64::from_be_bytes(self.array()?)),
                (Element::Uint64, tag::UINT64) => json.add(u64::from_be_bytes(self.array()?)),
                (Element::Double, tag::ELEMENT_DOUBLE) => {
                    json.double(f64::from_be_bytes(self.array()?));
                }
                (Element::Bool, tag::ELEMENT_BOOL) => match self.octet()? {
                    tag::FALSE => json.add(false),
                    tag::TRUE => json.add(true),
                    _ => return Err(Reason::Value),
                },
                _ => return Err(Reason::Value),
            }
        }
        Ok(json.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of OTG 2.11.0's, captured.
    const CAPTURED: [u8; 59] = [
        0xAA, 0xAA, 0x01, 0x00, 0x36, 0x06, 0x02, 0x05, 0x00, 0x00, 0x00, 0x01, 0x02, 0x21, 0x73,
        0x6C, 0xDF, 0x00, 0x02, 0x35, 0x80, 0x1F, 0x7B, 0x1F, 0x0A, 0xC2, 0xD9, 0x66, 0x9F, 0xC8,
        0xAA, 0xDA, 0x8B, 0x06, 0x00, 0x00, 0x00, 0x01, 0x06, 0x00, 0x00, 0x00, 0x40, 0x04, 0x09,
        b'1', b'2', b'7', b'.', b'0', b'.', b'0', b'.', b'1', 0x06, 0x00, 0x00, 0x0B, 0xB8,
    ];

    #[test]
    fn the_captured_packet_is_read_and_written() {
        let whole = Frame::Packet { head: 5, body: 54 };
        assert_eq!(frame(&CAPTURED), whole);
        assert_eq!(build(&CAPTURED[5..], 54), Build::Whole);
        let schema = Schema::parse(
            "u ts:double flow_id:guid seq_no:uint32 pkt_length:uint32 dst_host:string dst_port:uint32",
        )
        .unwrap();
        let mut body = Body::new(&CAPTURED[5..]);
        let (count, head) = body.head().unwrap();
        assert_eq!((count, head.index, head.sequence), (6, 2, 1));
        let mut rows = Rows::default();
        rows.add(2, 1, head.time_s, |rows| body.values(rows, count, &schema))
            .unwrap();
        let cells: Vec<String> = rows
            .row(0)
            .unwrap()
            .cells()
            .map(|cell| format!("{cell:?}"))
            .collect();
        assert_eq!(
            cells,
            [
                "Double(1795178230.0)",
                "Uint(14040366149756705419)",
                "Uint(1)",
                "Uint(64)",
                "Text(\"127.0.0.1\")",
                "Uint(3000)"
            ]
        );
        let mut written = Vec::new();
        let values = [
            Value::Double(1_795_178_230.0),
            Value::Guid(14_040_366_149_756_705_419),
            Value::Uint32(1),
            Value::Uint32(64),
            Value::Text("127.0.0.1"),
            Value::Uint32(3000),
        ];
        write_row(&mut written, head.time_s, 2, 1, &values);
        assert_eq!(written, CAPTURED);
    }

    #[test]
    fn every_cut_of_a_packet_is_known_for_one() {
        for end in 0..5 {
            assert_eq!(frame(&CAPTURED[..end]), Frame::Partial, "{end}");
        }
        for end in 5..CAPTURED.len() {
            assert!(matches!(frame(&CAPTURED[..end]), Frame::Packet { .. }));
            let has_head = end >= 5 + BODY_HEAD_OCTETS;
            let cut = Build::Cut { has_head };
            assert_eq!(build(&CAPTURED[5..end], 54), cut, "{end}");
            assert!(Body::new(&CAPTURED[5..end]).head().is_ok() == has_head);
        }
        assert_eq!(frame(&[0xAA, 0xAB]), Frame::Not);
    }

    #[test]
    fn a_body_of_another_length_than_its_values_is_wrong() {
        let body = &CAPTURED[5..];
        for octets in [0, 1, 12, 53, 55, 70_000] {
            assert_eq!(build(body, octets), Build::Wrong, "{octets}");
        }
        // A tag that there is not.
        let mut odd = body.to_vec();
        odd[13] = 0x0E;
        assert_eq!(build(&odd, 54), Build::Wrong);
        assert_eq!(build(&odd[..13], 54), Build::Cut { has_head: true });
    }

    #[test]
    fn doubles_keep_thirty_bits_and_odd_ones_are_no_numbers() {
        assert_eq!(split_double(0.0), Some((0, 0)));
        assert_eq!(split_double(0.5), Some((1 << 29, 0)));
        assert_eq!(split_double(-3.0), Some((-3 << 28, 2)));
        for none in [
            f64::NAN,
            f64::INFINITY,
            1e300,
            1e-300,
            f64::MIN_POSITIVE / 4.0,
        ] {
            assert_eq!(split_double(none), None, "{none}");
        }
    }
}
