//! Curves over time as SVG, without a library: whole numbers in, text out.

use std::fmt::Write as _;

const WIDTH: u64 = 760;
const HEIGHT: u64 = 260;
const LEFT: u64 = 84;
const RIGHT: u64 = 16;
const TOP: u64 = 44;
const BOTTOM: u64 = 40;

/// Lines of a grid.
const GRID: u64 = 4;

/// A curve.
pub(crate) struct Curve {
    pub(crate) name: &'static str,
    /// A colour.
    pub(crate) colour: &'static str,
    /// In the order of the first number.
    pub(crate) points: Vec<(u64, u64)>,
}

/// Curves in one frame.
pub(crate) struct Picture<'a> {
    pub(crate) title: &'a str,
    pub(crate) curves: &'a [Curve],
    /// How numbers along and up are read.
    pub(crate) along: fn(u64) -> String,
    pub(crate) up: fn(u64) -> String,
}

impl Picture<'_> {
    pub(crate) fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let most_along = points().map(|point| point.0).max().unwrap_or(0).max(1);
        let most_up = points().map(|point| point.1).max().unwrap_or(0).max(1);
        let x = |value| LEFT * 10 + scaled(value, most_along, (WIDTH - LEFT - RIGHT) * 10);
        let y =
            |value| (HEIGHT - BOTTOM) * 10 - scaled(value, most_up, (HEIGHT - TOP - BOTTOM) * 10);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{0}</title>\
             <text class=\"title\" x=\"{LEFT}\" y=\"18\">{0}</text>",
            self.title
        );
        for step in 0..=GRID {
            let (along, up) = (most_along * step / GRID, most_up * step / GRID);
            let (across, height) = (y(up), x(along));
            // Writing into a text does not fail.
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {0}H{1}\"/><text class=\"faint\" x=\"{2}\" y=\"{0}\" text-anchor=\"end\" dy=\"4\">{3}</text>\
                 <text class=\"faint\" x=\"{4}\" y=\"{5}\" text-anchor=\"middle\">{6}</text>",
                tenths(across),
                WIDTH - RIGHT,
                LEFT - 6,
                (self.up)(up),
                tenths(height),
                HEIGHT - BOTTOM + 18,
                (self.along)(along)
            );
        }
        let mut place = LEFT;
        for curve in self.curves {
            let mut path = String::new();
            for (number, point) in curve.points.iter().enumerate() {
                let verb = if number == 0 { 'M' } else { 'L' };
                let _ = write!(path, "{verb}{} {}", tenths(x(point.0)), tenths(y(point.1)));
            }
            let _ = write!(
                out,
                "<path fill=\"none\" stroke=\"{0}\" stroke-width=\"2\" d=\"{path}\"/>\
                 <text x=\"{place}\" y=\"35\" fill=\"{0}\">{1}</text>",
                curve.colour, curve.name
            );
            place += 110;
        }
        out.push_str("</svg>");
        out
    }
}

fn scaled(value: u64, most: u64, length: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(length) / u128::from(most);
    u64::try_from(scaled).unwrap_or(length)
}

fn tenths(value: u64) -> String {
    format!("{}.{}", value / 10, value % 10)
}
