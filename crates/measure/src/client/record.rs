//! A sample on its way from the measured program to the thread that writes: octets in a buffer, no allocation of its own.

use crate::value::{Value, Vector};

/// The head of a sample, before its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The number of its point within the client, from 0.
    pub stream: u32,
    /// Its number, from 1.
    pub sequence: u64,
    /// Seconds since the client's start time.
    pub time_s: f64,
}

const LENGTH_OCTETS: usize = 4;

/// Appends a sample; values that do not fit a length of 32 bits make it fail, and nothing stays.
pub fn write(out: &mut Vec<u8>, sample: Sample, values: &[Value<'_>]) -> Result<(), TooLong> {
    let start = out.len();
    out.extend([0; LENGTH_OCTETS]);
    out.extend(sample.stream.to_le_bytes());
    out.extend(sample.sequence.to_le_bytes());
    out.extend(sample.time_s.to_le_bytes());
    for value in values {
        write_value(out, value);
    }
    let length = u32::try_from(out.len() - start - LENGTH_OCTETS);
    match (length, out.get_mut(start..start + LENGTH_OCTETS)) {
        (Ok(length), Some(place)) => {
            place.copy_from_slice(&length.to_le_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start);
            Err(TooLong)
        }
    }
}

/// A sample of more than 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Appends one value.
pub fn write_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Int32(n) => tagged(out, 1, &n.to_le_bytes()),
        Value::Uint32(n) => tagged(out, 2, &n.to_le_bytes()),
        Value::Int64(n) => tagged(out, 3, &n.to_le_bytes()),
        Value::Uint64(n) => tagged(out, 4, &n.to_le_bytes()),
        Value::Double(n) => tagged(out, 5, &n.to_le_bytes()),
        Value::Guid(n) => tagged(out, 6, &n.to_le_bytes()),
        Value::Bool(truth) => tagged(out, 7, &[u8::from(*truth)]),
        Value::Text(text) => lengthy(out, 8, text.as_bytes()),
        Value::Blob(octets) => lengthy(out, 9, octets),
        Value::Vector(vector) => {
            let (tag, octets): (u8, Vec<u8>) = match vector {
                Vector::Int32(all) => (10, all.iter().flat_map(|n| n.to_le_bytes()).collect()),
                Vector::Uint32(all) => (11, all.iter().flat_map(|n| n.to_le_bytes()).collect()),
                Vector::Int64(all) => (12, all.iter().flat_map(|n| n.to_le_bytes()).collect()),
                Vector::Uint64(all) => (13, all.iter().flat_map(|n| n.to_le_bytes()).collect()),
                Vector::Double(all) => (14, all.iter().flat_map(|n| n.to_le_bytes()).collect()),
                Vector::Bool(all) => (15, all.iter().map(|truth| u8::from(*truth)).collect()),
            };
            lengthy(out, tag, &octets);
        }
    }
}

fn tagged(out: &mut Vec<u8>, tag: u8, octets: &[u8]) {
    out.push(tag);
    out.extend_from_slice(octets);
}

fn lengthy(out: &mut Vec<u8>, tag: u8, octets: &[u8]) {
    out.push(tag);
    // A longer value makes the whole sample too long, and the length of the whole is checked.
    let length = u32::try_from(octets.len()).unwrap_or(u32::MAX);
    out.extend(length.to_le_bytes());
    out.extend_from_slice(octets);
}

/// A value as it is kept: vectors own their elements.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept<'a> {
    /// Not a vector.
    Plain(Value<'a>),
    /// A vector.
    Int32(Vec<i32>),
    /// A vector.
    Uint32(Vec<u32>),
    /// A vector.
    Int64(Vec<i64>),
    /// A vector.
    Uint64(Vec<u64>),
    /// A vector.
    Double(Vec<f64>),
    /// A vector.
    Bool(Vec<bool>),
}

impl Kept<'_> {
    /// The value.
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Plain(value) => *value,
            Self::Int32(all) => Value::Vector(Vector::Int32(all)),
            Self::Uint32(all) => Value::Vector(Vector::Uint32(all)),
            Self::Int64(all) => Value::Vector(Vector::Int64(all)),
            Self::Uint64(all) => Value::Vector(Vector::Uint64(all)),
            Self::Double(all) => Value::Vector(Vector::Double(all)),
            Self::Bool(all) => Value::Vector(Vector::Bool(all)),
        }
    }
}

/// Reads the samples that were written.
#[derive(Debug)]
pub struct Samples<'a> {
    rest: &'a [u8],
}

impl<'a> Samples<'a> {
    /// The samples in those octets.
    pub const fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }

    /// The next sample; its values are put into `values`.
    pub fn next_into(&mut self, values: &mut Vec<Kept<'a>>) -> Option<Sample> {
        values.clear();
        let length = u32::from_le_bytes(self.array()?);
        let (mut octets, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        std::mem::swap(&mut self.rest, &mut octets);
        let sample = Sample {
            stream: u32::from_le_bytes(self.array()?),
            sequence: u64::from_le_bytes(self.array()?),
            time_s: f64::from_le_bytes(self.array()?),
        };
        while !self.rest.is_empty() {
            values.push(self.value()?);
        }
        self.rest = rest;
        Some(sample)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn lengthy(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.array()?);
        self.take(usize::try_from(length).ok()?)
    }

    /// One value, as [`write_value`] wrote it.
    pub fn value(&mut self) -> Option<Kept<'a>> {
        let [tag] = self.array()?;
        Some(match tag {
            1 => Kept::Plain(Value::Int32(i32::from_le_bytes(self.array()?))),
            2 => Kept::Plain(Value::Uint32(u32::from_le_bytes(self.array()?))),
            3 => Kept::Plain(Value::Int64(i64::from_le_bytes(self.array()?))),
            4 => Kept::Plain(Value::Uint64(u64::from_le_bytes(self.array()?))),
            5 => Kept::Plain(Value::Double(f64::from_le_bytes(self.array()?))),
            6 => Kept::Plain(Value::Guid(u64::from_le_bytes(self.array()?))),
            7 => Kept::Plain(Value::Bool(self.array()? == [1])),
            8 => Kept::Plain(Value::Text(std::str::from_utf8(self.lengthy()?).ok()?)),
            9 => Kept::Plain(Value::Blob(self.lengthy()?)),
            10 => Kept::Int32(self.elements(i32::from_le_bytes)?),
            11 => Kept::Uint32(self.elements(u32::from_le_bytes)?),
            12 => Kept::Int64(self.elements(i64::from_le_bytes)?),
            13 => Kept::Uint64(self.elements(u64::from_le_bytes)?),
            14 => Kept::Double(self.elements(f64::from_le_bytes)?),
            15 => Kept::Bool(self.elements(|octet| octet == [1])?),
            _ => return None,
        })
    }

    fn elements<const N: usize, T>(&mut self, read: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
        let (chunks, _) = self.lengthy()?.as_chunks::<N>();
        Some(chunks.iter().map(|chunk| read(*chunk)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_back_as_they_went_in() {
        let values = [
            Value::Int32(-1),
            Value::Uint32(u32::MAX),
            Value::Int64(i64::MIN),
            Value::Uint64(u64::MAX),
            Value::Double(0.1),
            Value::Guid(7),
            Value::Bool(true),
            Value::Text("täxt"),
            Value::Blob(&[1, 2, 3]),
            Value::Vector(Vector::Int32(&[-1, 2])),
            Value::Vector(Vector::Uint32(&[1])),
            Value::Vector(Vector::Int64(&[])),
            Value::Vector(Vector::Uint64(&[u64::MAX])),
            Value::Vector(Vector::Double(&[1.5, f64::INFINITY])),
            Value::Vector(Vector::Bool(&[true, false])),
        ];
        let sample = Sample {
            stream: 3,
            sequence: 9,
            time_s: 1.5,
        };
        let mut octets = Vec::new();
        write(&mut octets, sample, &values).unwrap();
        write(
            &mut octets,
            Sample {
                sequence: 10,
                ..sample
            },
            &[],
        )
        .unwrap();
        let (mut samples, mut read) = (Samples::new(&octets), Vec::new());
        assert_eq!(samples.next_into(&mut read), Some(sample));
        let back: Vec<Value<'_>> = read.iter().map(Kept::value).collect();
        assert_eq!(back, values);
        assert_eq!(samples.next_into(&mut read).unwrap().sequence, 10);
        assert_eq!(samples.next_into(&mut read), None);
    }
}
