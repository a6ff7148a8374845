//! A row as text: `TIME\tSTREAM\tSEQUENCE\tVALUE…\n`.

use std::fmt::Write as _;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::reason::Reason;
use super::rows::Rows;
use crate::schema::{Element, Schema, Type};
use crate::value::{Value, Vector};

/// Writes a row; doubles with as many digits as tell them from every other.
pub fn write_row(out: &mut String, time_s: f64, index: u8, sequence: u64, values: &[Value<'_>]) {
    // Writing into a String cannot fail.
    let _ = write!(out, "{time_s:.6}\t{index}\t{sequence}");
    for value in values {
        out.push('\t');
        write_value(out, value);
    }
    out.push('\n');
}

fn write_value(out: &mut String, value: &Value<'_>) {
    let _ = match value {
        Value::Int32(number) => write!(out, "{number}"),
        Value::Uint32(number) => write!(out, "{number}"),
        Value::Int64(number) => write!(out, "{number}"),
        Value::Uint64(number) | Value::Guid(number) => write!(out, "{number}"),
        Value::Double(number) => {
            write_double(out, *number);
            Ok(())
        }
        Value::Text(text) => {
            write_escaped(out, text);
            Ok(())
        }
        Value::Blob(octets) => {
            BASE64_STANDARD.encode_string(octets, out);
            Ok(())
        }
        Value::Bool(truth) => out.write_str(if *truth { "T" } else { "F" }),
        Value::Vector(vector) => {
            write_vector(out, vector);
            Ok(())
        }
    };
}

fn write_double(out: &mut String, number: f64) {
    let _ = if number.is_nan() {
        out.write_str("nan")
    } else {
        write!(out, "{number:?}")
    };
}

/// A NUL is left out: no database's text can hold one, and a row with one counts as damaged.
fn write_escaped(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            '\0' => {}
            other => out.push(other),
        }
    }
}

fn write_vector(out: &mut String, vector: &Vector<'_>) {
    let _ = write!(out, "{}", vector.len());
    macro_rules! each {
        ($all:expr) => {
            for element in *$all {
                let _ = write!(out, " {element}");
            }
        };
    }
    match vector {
        Vector::Int32(all) => each!(all),
        Vector::Uint32(all) => each!(all),
        Vector::Int64(all) => each!(all),
        Vector::Uint64(all) => each!(all),
        Vector::Double(all) => {
            for number in *all {
                out.push(' ');
                write_double(out, *number);
            }
        }
        Vector::Bool(all) => {
            for truth in *all {
                out.push_str(if *truth { " True" } else { " False" });
            }
        }
    }
}

/// The head of a row, before its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RowHead {
    pub time_s: f64,
    pub index: u8,
    pub sequence: i64,
}

/// Splits a line into its head and the values after it.
pub(super) fn read_head(line: &str) -> Option<(RowHead, Option<&str>)> {
    let (time, rest) = line.split_once('\t')?;
    let (index, rest) = rest.split_once('\t')?;
    let (sequence, values) = match rest.split_once('\t') {
        Some((sequence, values)) => (sequence, Some(values)),
        None => (rest, None),
    };
    let time_s = f64::from_str(time).ok().filter(|time| time.is_finite())?;
    let head = RowHead {
        time_s,
        index: index.parse().ok()?,
        sequence: sequence.parse().ok()?,
    };
    Some((head, values))
}

/// Reads a row's values, tab-separated, into the cells of `rows`.
pub(super) fn read_values(
    rows: &mut Rows,
    schema: &Schema,
    values: Option<&str>,
) -> Result<(), Reason> {
    let mut texts = values.into_iter().flat_map(|values| values.split('\t'));
    for field in schema.fields() {
        let text = texts.next().ok_or(Reason::FieldCount)?;
        read_value(rows, field.kind, text)?;
    }
    match texts.next() {
        None => Ok(()),
        Some(_) => Err(Reason::FieldCount),
    }
}

fn number<N: FromStr>(text: &str) -> Result<N, Reason> {
    text.parse().map_err(|_| Reason::Value)
}

fn read_value(rows: &mut Rows, kind: Type, text: &str) -> Result<(), Reason> {
    match kind {
        Type::Int32 => rows.int(number::<i32>(text)?.into()),
        Type::Uint32 => rows.uint(number::<u32>(text)?.into()),
        Type::Int64 => rows.int(number(text)?),
        Type::Uint64 => rows.uint(number(text)?),
        Type::Double => rows.double(number(text)?),
        Type::Guid => rows.guid(number(text)?),
        Type::Bool => rows.bool(read_bool(text)?),
        Type::Text => rows.text(Unescaped { rest: text }),
        Type::Blob => rows.blob(|out| {
            BASE64_STANDARD
                .decode_vec(text, out)
                .map_err(|_| Reason::Value)
        })?,
        Type::Vector(element) => {
            let json = read_vector(element, text)?;
            rows.text(std::iter::once(json.as_str()));
        }
    }
    Ok(())
}

/// `T` and `F` are what is written; any beginning of `true` and `false` is read, and `1`. Everything else is refused: OML takes
/// it, also `0`, for true.
fn read_bool(text: &str) -> Result<bool, Reason> {
    let begins = |word: &str| {
        !text.is_empty()
            && word
                .get(..text.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(text))
    };
    match () {
        () if begins("true") || text == "1" => Ok(true),
        () if begins("false") => Ok(false),
        () => Err(Reason::Value),
    }
}

/// `COUNT ELEMENT…` as JSON, as OML's tables have vectors.
fn read_vector(element: Element, text: &str) -> Result<String, Reason> {
    let mut words = text.split_ascii_whitespace();
    let count: usize = number(words.next().ok_or(Reason::Value)?)?;
    let mut json = Json::default();
    for word in words {
        match element {
            Element::Int32 => json.add(number::<i32>(word)?),
            Element::Uint32 => json.add(number::<u32>(word)?),
            Element::Int64 => json.add(number::<i64>(word)?),
            Element::Uint64 => json.add(number::<u64>(word)?),
            Element::Double => json.double(number(word)?),
            Element::Bool => json.add(read_bool(word)?),
        }
    }
    if json.count == count {
        Ok(json.finish())
    } else {
        Err(Reason::Value)
    }
}

/// A vector as JSON: `[ 1.5, 2.5 ]`, nothing where it is empty, as OML stores it; a number that is not finite is `null`.
#[derive(Debug, Default)]
pub(super) struct Json {
    text: String,
    count: usize,
}

impl Json {
    pub(super) fn add(&mut self, element: impl std::fmt::Display) {
        self.text
            .push_str(if self.count == 0 { "[ " } else { ", " });
        let _ = write!(self.text, "{element}");
        self.count += 1;
    }

    pub(super) fn double(&mut self, number: f64) {
        if number.is_finite() {
            self.add(format_args!("{number:?}"));
        } else {
            self.add("null");
        }
    }

    pub(super) fn finish(mut self) -> String {
        if self.count > 0 {
            self.text.push_str(" ]");
        }
        self.text
    }
}

/// The pieces of a text whose escapes are undone; a backslash before any other letter stays.
struct Unescaped<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Unescaped<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        if !self.rest.starts_with('\\') {
            let end = self.rest.find('\\').unwrap_or(self.rest.len());
            let (piece, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Some(piece);
        }
        for (escape, meant) in [("\\t", "\t"), ("\\n", "\n"), ("\\r", "\r"), ("\\\\", "\\")] {
            if let Some(rest) = self.rest.strip_prefix(escape) {
                self.rest = rest;
                return Some(meant);
            }
        }
        let (piece, rest) = self.rest.split_at(1);
        self.rest = rest;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::Cell;
    use super::*;

    fn read(schema: &str, line: &str) -> Result<Vec<String>, Reason> {
        let schema = Schema::parse(schema).unwrap();
        let (head, values) = read_head(line).ok_or(Reason::Head)?;
        let mut rows = Rows::default();
        rows.add(1, head.sequence, head.time_s, |rows| {
            read_values(rows, &schema, values)
        })?;
        let row = rows.row(0).unwrap();
        Ok(row.cells().map(|cell| format!("{cell:?}")).collect())
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let values = [
            Value::Int32(-5),
            Value::Uint32(4_000_000_000),
            Value::Int64(i64::MIN),
            Value::Uint64(u64::MAX),
            Value::Double(0.1 + 0.2),
            Value::Text("a\tb\nc\\d\r\\t"),
            Value::Blob(&[0, 0xAA, 0xAA, 255]),
            Value::Guid(13_941_054_348_390_014_528),
            Value::Bool(false),
            Value::Vector(Vector::Double(&[1.5, 1e300])),
            Value::Text(""),
        ];
        let mut line = String::new();
        write_row(&mut line, 1.25, 3, 7, &values);
        let kinds: String = values
            .iter()
            .enumerate()
            .map(|(place, value)| format!(" f{place}:{}", value.kind()))
            .collect();
        let cells = read(&format!("s{kinds}"), line.trim_end_matches('\n')).unwrap();
        let expected = [
            Cell::Int(-5),
            Cell::Uint(4_000_000_000),
            Cell::Int(i64::MIN),
            Cell::Uint(u64::MAX),
            Cell::Double(0.300_000_000_000_000_04),
            Cell::Text("a\tb\nc\\d\r\\t"),
            Cell::Blob(&[0, 0xAA, 0xAA, 255]),
            Cell::Uint(13_941_054_348_390_014_528),
            Cell::Bool(false),
            Cell::Text("[ 1.5, 1e300 ]"),
            Cell::Text(""),
        ];
        assert_eq!(cells, expected.map(|cell| format!("{cell:?}")));
    }

    #[test]
    fn what_is_no_value_of_its_type_is_refused() {
        for (kind, text) in [
            ("int32", "0x10"),
            ("int32", "2147483648"),
            ("uint32", "-1"),
            ("uint64", "18446744073709551616"),
            ("double", "one"),
            ("bool", "0"),
            ("bool", ""),
            ("blob", "===="),
            ("[double]", "3 1.0 2.0"),
            ("[int32]", ""),
        ] {
            let outcome = read(&format!("s f:{kind}"), &format!("1.0\t1\t1\t{text}"));
            assert_eq!(outcome, Err(Reason::Value), "{kind} {text}");
        }
        assert_eq!(read("s f:int32", "1.0\t1\t1\t010").unwrap(), ["Int(10)"]);
        assert_eq!(read("s f:double", "1.0\t1\t1\tnan").unwrap(), ["Null"]);
        assert_eq!(read("s f:guid", "1.0\t1\t1\t0").unwrap(), ["Null"]);
        assert_eq!(read("s f:bool", "1.0\t1\t1\tfAl").unwrap(), ["Bool(false)"]);
    }

    #[test]
    fn heads_and_counts_are_held_to() {
        assert_eq!(read("s f:int32", "1.0\t1\t1"), Err(Reason::FieldCount));
        assert_eq!(
            read("s f:int32", "1.0\t1\t1\t2\t3"),
            Err(Reason::FieldCount)
        );
        for head in [
            "",
            "1.0",
            "1.0\t1",
            "x\t1\t1",
            "inf\t1\t1",
            "1.0\t256\t1",
            "1.0\t1\tx",
        ] {
            assert_eq!(read("s", head), Err(Reason::Head), "{head}");
        }
    }
}
