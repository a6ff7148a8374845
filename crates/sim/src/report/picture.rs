//! Curves and bands as SVG, without a library: whole numbers in, text out. Colours are the page's.

use std::fmt::Write as _;

use super::axis::Axis;

const WIDTH: u64 = 760;
const HEIGHT: u64 = 288;
const LEFT: u64 = 72;
const RIGHT: u64 = 24;
/// Below the title and the line of names.
const TOP: u64 = 66;
const BOTTOM: u64 = 34;

/// What a curve looks like; the page's style says how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Main,
    Faint,
}

/// A curve, and where it has one the band about it.
pub(crate) struct Curve {
    pub(crate) name: &'static str,
    pub(crate) look: Look,
    /// In the order of the first number.
    pub(crate) points: Vec<(u64, u64)>,
    /// For the same first numbers, the lowest and the highest.
    pub(crate) band: Vec<(u64, u64, u64)>,
}

/// Curves in one frame.
pub(crate) struct Picture<'a> {
    pub(crate) title: &'a str,
    pub(crate) curves: &'a [Curve],
    pub(crate) along: Axis,
    pub(crate) up: Axis,
}

impl Picture<'_> {
    pub(crate) fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let bands = self.curves.iter().flat_map(|curve| &curve.band);
        let most_along = points().map(|point| point.0).max().unwrap_or(0);
        let highest = points().map(|point| point.1).max().unwrap_or(0);
        let most_up = bands.map(|it| it.2).max().unwrap_or(0).max(highest);
        let (along_end, up_end) = (self.along.end(most_along), self.up.end(most_up));
        let x = |value| LEFT * 10 + scaled(value, along_end, (WIDTH - LEFT - RIGHT) * 10);
        let y =
            |value| (HEIGHT - BOTTOM) * 10 - scaled(value, up_end, (HEIGHT - TOP - BOTTOM) * 10);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{0}</title>\
             <text class=\"title\" x=\"0\" y=\"16\">{0}</text>",
            self.title
        );
        let step = self.up.step(up_end);
        for number in 0..=up_end / step {
            let mark = number * step;
            // Writing into a text does not fail.
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {0}H{1}\"/><text x=\"{2}\" y=\"{0}\" text-anchor=\"end\" dy=\"4\">{3}</text>",
                tenths(y(mark)),
                WIDTH - RIGHT,
                LEFT - 8,
                self.up.say(mark)
            );
        }
        let step = self.along.step(along_end);
        for number in 0..=along_end / step {
            let mark = number * step;
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{0} {1}v5\"/><text x=\"{0}\" y=\"{2}\" text-anchor=\"middle\">{3}</text>",
                tenths(x(mark)),
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 20,
                self.along.say(mark)
            );
        }
        let place = |(along, up): (u64, u64)| format!("{} {}", tenths(x(along)), tenths(y(up)));
        let path = |points: &mut dyn Iterator<Item = (u64, u64)>| {
            let places: Vec<String> = points.map(place).collect();
            places.join("L")
        };
        let mut name_at = 0;
        for curve in self.curves {
            let class = match curve.look {
                Look::Main => "main",
                Look::Faint => "faint",
            };
            if !curve.band.is_empty() {
                let mut around = (curve.band.iter().map(|it| (it.0, it.1)))
                    .chain(curve.band.iter().rev().map(|it| (it.0, it.2)));
                let _ = write!(out, "<path class=\"band\" d=\"M{}Z\"/>", path(&mut around));
            }
            if !curve.points.is_empty() {
                let line = path(&mut curve.points.iter().copied());
                let _ = write!(out, "<path class=\"curve {class}\" d=\"M{line}\"/>");
            }
            let _ = write!(
                out,
                "<path class=\"curve {class}\" d=\"M{name_at} 34h18\"/><text x=\"{}\" y=\"38\">{}</text>",
                name_at + 24,
                curve.name
            );
            let letters = u64::try_from(curve.name.chars().count()).unwrap_or(0);
            name_at += 50 + letters * 7;
        }
        out.push_str("</svg>");
        out
    }
}

fn scaled(value: u64, most: u64, length: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(length) / u128::from(most.max(1));
    u64::try_from(scaled).unwrap_or(length)
}

fn tenths(value: u64) -> String {
    format!("{}.{}", value / 10, value % 10)
}
