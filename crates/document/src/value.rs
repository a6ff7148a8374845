//! A value of its key's kind.

use std::time::Duration;

use crate::quantity::{parse_duration, parse_rate, parse_size, parse_speed};
use toml::de::DeValue;

use crate::schema::{Key, Kind};

/// A value of its key's kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    List(Vec<String>),
    Integer(i64),
    Numbers(Vec<i64>),
    Size(u64),
    Sizes(u64, u64),
    Duration(Duration),
    Durations(Duration, Duration),
    /// Millimetres an hour.
    Speeds(u64, u64),
    /// Milliseconds.
    Offset(i64),
    /// Octets a second.
    Rate(u64),
    /// Billionths.
    Part(u32),
    Boolean(bool),
}

/// The value that a key has been given; else the kind that it should have been.
pub(crate) fn read_value(key: &Key, value: &DeValue<'_>) -> Result<Value, String> {
    let kind_is = |what: &str| format!("must be {what}, not {}", value.type_str());
    match key.kind {
        Kind::Text | Kind::Path => value
            .as_str()
            .map(|text| Value::Text(text.to_owned()))
            .ok_or_else(|| kind_is("text")),
        Kind::TextOrList => match value.as_str() {
            Some(text) => Ok(Value::Text(text.to_owned())),
            None => texts(value)
                .map(Value::List)
                .ok_or_else(|| kind_is("text or a list of texts")),
        },
        Kind::TextList | Kind::PathList => texts(value)
            .map(Value::List)
            .ok_or_else(|| kind_is("a list of texts")),
        Kind::Integer(least, most) => {
            if value.as_integer().is_none() {
                return Err(kind_is("a whole number"));
            }
            // One that does not fit into 64 bits is out of all bounds.
            let integer = integer(value).filter(|it| (least..=most).contains(it));
            integer
                .map(Value::Integer)
                .ok_or_else(|| format!("must be between {least} and {most}"))
        }
        Kind::Size => size(value).map(Value::Size),
        Kind::Sizes => match value.as_str().and_then(|text| text.split_once("..")) {
            None => size(value).map(|octets| Value::Sizes(octets, octets)),
            Some((least, most)) => {
                let read =
                    |text| parse_size(text).map_err(|error| format!("is not a size: {error}"));
                ordered(read(least)?, read(most)?).map(|(least, most)| Value::Sizes(least, most))
            }
        },
        Kind::Duration => duration(value).map(Value::Duration),
        Kind::Durations => match value.as_str().and_then(|text| text.split_once("..")) {
            None => duration(value).map(|time| Value::Durations(time, time)),
            Some((least, most)) => ordered(time(least)?, time(most)?)
                .map(|(least, most)| Value::Durations(least, most)),
        },
        Kind::Speeds => {
            let text = value.as_str().ok_or_else(|| kind_is("text with a speed"))?;
            let (least, most) = text.split_once("..").unwrap_or((text, text));
            let read = |text| parse_speed(text).map_err(|error| format!("is not a speed: {error}"));
            ordered(read(least)?, read(most)?).map(|(least, most)| Value::Speeds(least, most))
        }
        Kind::Offset => {
            let text = value
                .as_str()
                .ok_or_else(|| kind_is("text with a unit of time"))?;
            let (sign, text) = match text.strip_prefix('-') {
                Some(text) => (-1, text),
                None => (1, text.strip_prefix('+').unwrap_or(text)),
            };
            let offset_ms = i64::try_from(time(text)?.as_millis());
            let offset_ms = offset_ms.map_err(|_| "is too long".to_owned())?;
            Ok(Value::Offset(sign * offset_ms))
        }
        Kind::Rate => {
            let text = value.as_str().ok_or_else(|| kind_is("text with a rate"))?;
            parse_rate(text)
                .map(Value::Rate)
                .map_err(|error| format!("is not a rate: {error}"))
        }
        Kind::Part => {
            let number = match value {
                DeValue::Float(number) => number.as_str(),
                DeValue::Integer(number) => number.as_str(),
                _ => return Err(kind_is("a number from 0 to 1")),
            };
            let part = billionths(number);
            part.map(Value::Part)
                .ok_or_else(|| "is a number from 0 to 1, to a billionth".to_owned())
        }
        Kind::Boolean => value
            .as_bool()
            .map(Value::Boolean)
            .ok_or_else(|| kind_is("true or false")),
        Kind::Choice(choices) => {
            let text = value.as_str().ok_or_else(|| kind_is("text"))?;
            choose(text, choices).map(Value::Text)
        }
        Kind::ChoiceList(choices) => {
            let list = texts(value).ok_or_else(|| kind_is("a list of texts"))?;
            list.iter()
                .map(|text| choose(text, choices))
                .collect::<Result<_, _>>()
                .map(Value::List)
        }
        Kind::NumberList(choices) => {
            let list = value
                .as_array()
                .ok_or_else(|| kind_is("a list of numbers"))?;
            let numbers = list.iter().map(|element| integer(element.get_ref()));
            let numbers: Option<Vec<i64>> = numbers.collect();
            let is_one = |number: &i64| choices.contains(number);
            (numbers.filter(|numbers| !numbers.is_empty() && numbers.iter().all(is_one)))
                .map(Value::Numbers)
                .ok_or_else(|| {
                    let choices: Vec<String> = choices.iter().map(i64::to_string).collect();
                    format!("must be a list of some of {}", choices.join(", "))
                })
        }
    }
}

fn size(value: &DeValue<'_>) -> Result<u64, String> {
    match (value.as_str(), integer(value)) {
        (Some(text), _) => parse_size(text).map_err(|error| format!("is not a size: {error}")),
        (None, Some(octets)) => {
            u64::try_from(octets).map_err(|_| "must not be negative".to_owned())
        }
        (None, None) if value.as_integer().is_some() => {
            Err(format!("must be between 0 and {} octets", i64::MAX))
        }
        (None, None) => Err(format!("must be a size, not {}", value.type_str())),
    }
}

fn duration(value: &DeValue<'_>) -> Result<Duration, String> {
    match (value.as_str(), integer(value)) {
        (Some(text), _) => time(text),
        (None, Some(0)) => Ok(Duration::ZERO),
        (None, _) => {
            let kind = value.type_str();
            Err(format!("must be text with a unit of time, not {kind}"))
        }
    }
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| format!("is not a time: {error}"))
}

fn ordered<T: PartialOrd>(least: T, most: T) -> Result<(T, T), String> {
    if most < least {
        return Err("must go from the smaller to the larger".to_owned());
    }
    Ok((least, most))
}

/// `0.25` in billionths; `None` for what is no such part.
fn billionths(text: &str) -> Option<u32> {
    const BILLION: u32 = 1_000_000_000;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let zeros = 9_usize.checked_sub(fraction.len())?;
    let digits = format!("{fraction}{}", "0".repeat(zeros));
    let parts = digits.parse::<u32>().ok()?;
    let total = whole
        .parse::<u32>()
        .ok()?
        .checked_mul(BILLION)?
        .checked_add(parts)?;
    (total <= BILLION).then_some(total)
}

fn choose(text: &str, choices: &[&str]) -> Result<String, String> {
    if choices.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "cannot be \"{text}\" (one of \"{}\")",
        choices.join("\", \"")
    ))
}

fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    value
        .as_array()?
        .iter()
        .map(|element| element.get_ref().as_str().map(str::to_owned))
        .collect()
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_whole_are_exact() {
        for (text, parts) in [
            ("0", Some(0)),
            ("1", Some(1_000_000_000)),
            ("0.25", Some(250_000_000)),
            ("0.000000001", Some(1)),
            ("0.0000000001", None),
            ("1.5", None),
            ("-0.5", None),
            ("1e-3", None),
        ] {
            assert_eq!(billionths(text), parts, "{text}");
        }
    }
}
