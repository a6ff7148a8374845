//! Curves, bands and points as SVG, without a library: whole numbers in, text out. Colours are the page's.

use std::fmt::Write as _;

use super::axis::{Axis, Scale};
use super::page::escaped;

const WIDTH: u64 = 760;
const HEIGHT: u64 = 288;
const LEFT: u64 = 84;
const RIGHT: u64 = 24;
/// Below the title and the line of names.
const TOP: u64 = 66;
const BOTTOM: u64 = 34;
/// Height of a line of names.
const NAMES: u64 = 20;
/// Width of a letter of a name where it is largest, on a telephone, near enough.
const LETTER: u64 = 9;
/// Letters of a name that are shown: as many as a line has room for.
const LETTERS_MAX: u64 = (WIDTH - 24) / LETTER;

/// Names along an axis that are marked.
const NAMES_MAX: u64 = 40;

/// Curves of one picture that have a colour of their own; those beyond begin anew.
const COLOURS: usize = 6;

/// The role of a curve in its picture; the page's style gives it colour and line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The subject of the picture.
    Main,
    /// A curve that the subject is compared with.
    Faint,
    /// One of several, by its number.
    Coloured(usize),
}

impl Look {
    fn class(self) -> String {
        match self {
            Self::Main => "main".to_owned(),
            Self::Faint => "faint".to_owned(),
            Self::Coloured(number) => format!("c{}", number % COLOURS),
        }
    }
}

/// A curve, and where it has one the band about it.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The name of the curve in the legend, in a few words.
    pub name: String,
    /// The style of its line.
    pub look: Look,
    /// In the order of the first number.
    pub points: Vec<(u64, u64)>,
    /// For the same first numbers, the lowest and the highest.
    pub band: Vec<(u64, u64, u64)>,
    /// Lines up and down through points: a first number, the lowest and the highest.
    pub bars: Vec<(u64, u64, u64)>,
    /// Single values, which no line joins.
    pub dots: Vec<(u64, u64)>,
}

impl Curve {
    /// A curve without points.
    pub fn new(name: impl Into<String>, look: Look) -> Self {
        let (points, band, bars, dots) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let name = name.into();
        Self {
            name,
            look,
            points,
            band,
            bars,
            dots,
        }
    }

    /// The curve through points.
    #[must_use]
    pub fn through(mut self, points: Vec<(u64, u64)>) -> Self {
        self.points = points;
        self
    }
}

/// Curves in one frame.
#[derive(Clone, Debug)]
pub struct Picture<'a> {
    /// The heading, as plain text.
    pub title: &'a str,
    /// In the order in which they are drawn.
    pub curves: &'a [Curve],
    /// The quantity on the horizontal axis.
    pub along: Axis,
    /// The scale of the horizontal axis.
    pub along_scale: Scale,
    /// The quantity on the vertical axis.
    pub up: Axis,
    /// The scale of the vertical axis.
    pub up_scale: Scale,
    /// Parts of the axis along that are set off: from, to.
    pub shades: &'a [(u64, u64)],
}

/// One direction of the frame: where a value has its place, in tenths of a pixel.
struct Ruler {
    axis: Axis,
    scale: Scale,
    /// The values at both ends.
    ends: (u64, u64),
    length: u64,
}

impl Ruler {
    fn new(axis: Axis, scale: Scale, values: &mut dyn Iterator<Item = u64>, length: u64) -> Self {
        let (mut least, mut most) = (u64::MAX, 0);
        for value in values.filter(|value| *value > 0) {
            (least, most) = (least.min(value), most.max(value));
        }
        let least = least.min(most);
        let ends = match scale {
            // The last name has as much room as the first.
            Scale::Linear if axis == Axis::Name => (0, most + 1),
            Scale::Linear => (0, axis.end(most)),
            // A value at the very edge would hide in it.
            Scale::Logarithmic => ((least - least / 8).max(1), (most + most / 8).max(2)),
        };
        Self {
            axis,
            scale,
            ends,
            length,
        }
    }

    fn place(&self, value: u64) -> u64 {
        match self.scale {
            Scale::Linear => scaled(value.min(self.ends.1), self.ends.1, self.length),
            Scale::Logarithmic => {
                // Hundredths of a doubling are finer than a pixel.
                let value = value.clamp(self.ends.0, self.ends.1);
                let of = |value: u64| doublings(value).saturating_sub(doublings(self.ends.0));
                scaled(of(value), of(self.ends.1), self.length)
            }
        }
    }

    fn marks(&self) -> Vec<u64> {
        match (self.axis, self.scale) {
            (Axis::Name, _) => (1..self.ends.1.min(NAMES_MAX)).collect(),
            (_, Scale::Linear) => {
                let step = self.axis.step(self.ends.1);
                (0..=self.ends.1 / step)
                    .map(|number| number * step)
                    .collect()
            }
            (_, Scale::Logarithmic) => {
                let powers = (0..19).map(|power| 10_u64.pow(power));
                let within = |mark: &u64| (self.ends.0..=self.ends.1).contains(mark);
                let all: Vec<u64> = (powers.clone())
                    .flat_map(|power| [1, 2, 5].map(|it| power * it))
                    .filter(within)
                    .collect();
                if all.len() <= 8 {
                    return all;
                }
                powers.filter(within).collect()
            }
        }
    }
}

/// The logarithm of a number to the base of two, in 1/256: exact at powers of two and straight between.
fn doublings(value: u64) -> u64 {
    let value = value.max(1);
    let whole = u64::from(value.ilog2());
    let rest = u128::from(value) * 256 / (1_u128 << whole) - 256;
    // A straight line between powers of two is up to 22/256 too low: this parabola is not.
    let bend = rest * (256 - rest) * 88 / (256 * 256);
    whole * 256 + u64::try_from(rest + bend).unwrap_or(0)
}

impl Picture<'_> {
    /// A picture of curves, with marks at equal differences and nothing set off.
    #[must_use]
    pub const fn new<'a>(
        title: &'a str,
        curves: &'a [Curve],
        along: Axis,
        up: Axis,
    ) -> Picture<'a> {
        Picture {
            title,
            curves,
            along,
            along_scale: Scale::Linear,
            up,
            up_scale: Scale::Linear,
            shades: &[],
        }
    }

    /// The picture.
    #[must_use]
    pub fn svg(&self) -> String {
        let top = TOP + (self.lines_of_names() - 1) * NAMES;
        let height = HEIGHT + top - TOP;
        let bottom = height - BOTTOM;
        let along = self.ruler_along();
        let up = self.ruler_up((bottom - top) * 10);
        let x = |value| LEFT * 10 + along.place(value);
        let y = |value| bottom * 10 - up.place(value);
        let title = escaped(self.title);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\"><title>{title}</title>\
             <text class=\"title\" x=\"0\" y=\"16\">{title}</text>",
        );
        for (from, to) in self.shades {
            // Writing into a text does not fail.
            let _ = write!(
                out,
                "<path class=\"shade\" d=\"M{0} {top}H{1}V{bottom}H{0}Z\"/>",
                tenths(x(*from)),
                tenths(x(*to)),
            );
        }
        for mark in up.marks() {
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {0}H{1}\"/><text x=\"{2}\" y=\"{0}\" text-anchor=\"end\" dy=\"4\">{3}</text>",
                tenths(y(mark)),
                WIDTH - RIGHT,
                LEFT - 8,
                self.up.say(mark)
            );
        }
        for mark in along.marks() {
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{0} {bottom}v5\"/><text x=\"{0}\" y=\"{1}\" text-anchor=\"middle\">{2}</text>",
                tenths(x(mark)),
                bottom + 20,
                self.along.say(mark)
            );
        }
        let place = |(along, up): (u64, u64)| format!("{} {}", tenths(x(along)), tenths(y(up)));
        for curve in self.curves {
            write_curve(&mut out, curve, &place);
        }
        self.write_names(&mut out);
        out.push_str("</svg>");
        out
    }

    fn ruler_along(&self) -> Ruler {
        let values = self.curves.iter().flat_map(|curve| {
            let points = curve.points.iter().chain(&curve.dots).map(|point| point.0);
            points.chain(curve.bars.iter().map(|bar| bar.0))
        });
        let mut values = values.chain(self.shades.iter().map(|shade| shade.1));
        let length = (WIDTH - LEFT - RIGHT) * 10;
        Ruler::new(self.along, self.along_scale, &mut values, length)
    }

    fn ruler_up(&self, length: u64) -> Ruler {
        let mut values = self.curves.iter().flat_map(|curve| {
            let points = curve.points.iter().chain(&curve.dots).map(|point| point.1);
            let ranges = curve.band.iter().chain(&curve.bars);
            points.chain(ranges.flat_map(|range| [range.1, range.2]))
        });
        Ruler::new(self.up, self.up_scale, &mut values, length)
    }

    /// The line of each name, and its distance from the left in the picture's units.
    fn names(&self) -> Vec<(u64, u64)> {
        let (mut line, mut at) = (0, 0);
        let mut places = Vec::new();
        for curve in self.curves {
            let letters = u64::try_from(shown(&curve.name).chars().count()).unwrap_or(0);
            let length = 50 + letters * LETTER;
            if at > 0 && at + length > WIDTH {
                (line, at) = (line + 1, 0);
            }
            places.push((line, at));
            at += length;
        }
        places
    }

    fn lines_of_names(&self) -> u64 {
        self.names().last().map_or(1, |(line, _)| line + 1)
    }

    fn write_names(&self, out: &mut String) {
        for (curve, (line, at)) in self.curves.iter().zip(self.names()) {
            let (middle, class) = (34 + line * NAMES, curve.look.class());
            let sign = if curve.points.is_empty() && curve.band.is_empty() {
                format!(
                    "<circle class=\"dot {class}\" cx=\"{}\" cy=\"{middle}\" r=\"3\"/>",
                    at + 9
                )
            } else {
                format!("<path class=\"curve {class}\" d=\"M{at} {middle}h18\"/>")
            };
            let _ = write!(
                out,
                "{sign}<text x=\"{}\" y=\"{}\">{}</text>",
                at + 24,
                middle + 4,
                escaped(&shown(&curve.name))
            );
        }
    }
}

/// A name, or its beginning where it is too long.
fn shown(name: &str) -> String {
    let most = usize::try_from(LETTERS_MAX).unwrap_or(0);
    match name.chars().count() > most {
        true => name.chars().take(most - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

fn write_curve(out: &mut String, curve: &Curve, place: &dyn Fn((u64, u64)) -> String) {
    let class = curve.look.class();
    let path = |points: &mut dyn Iterator<Item = (u64, u64)>| {
        let places: Vec<String> = points.map(place).collect();
        places.join("L")
    };
    if !curve.band.is_empty() {
        let mut around = (curve.band.iter().map(|it| (it.0, it.1)))
            .chain(curve.band.iter().rev().map(|it| (it.0, it.2)));
        let _ = write!(
            out,
            "<path class=\"band {class}\" d=\"M{}Z\"/>",
            path(&mut around)
        );
    }
    for (along, low, high) in &curve.bars {
        let (low, high) = (place((*along, *low)), place((*along, *high)));
        let _ = write!(out, "<path class=\"whisker {class}\" d=\"M{low}L{high}\"/>");
    }
    if !curve.points.is_empty() {
        let line = path(&mut curve.points.iter().copied());
        let _ = write!(out, "<path class=\"curve {class}\" d=\"M{line}\"/>");
    }
    for dot in &curve.dots {
        let at = place(*dot);
        let (x, y) = at.split_once(' ').unwrap_or(("0", "0"));
        let _ = write!(
            out,
            "<circle class=\"dot {class}\" cx=\"{x}\" cy=\"{y}\" r=\"3\"/>"
        );
    }
}

fn scaled(value: u64, most: u64, length: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(length) / u128::from(most.max(1));
    u64::try_from(scaled).unwrap_or(length)
}

fn tenths(value: u64) -> String {
    format!("{}.{}", value / 10, value % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doublings_are_those_of_a_logarithm() {
        for value in [1_u64, 2, 3, 5, 7, 10, 100, 1_000, 48_000, 1 << 40] {
            let exact = f64::from(u32::try_from(value.min(1 << 31)).unwrap()).log2();
            let exact = if value == 1 << 40 { 40.0 } else { exact };
            let found = f64::from(u32::try_from(doublings(value)).unwrap()) / 256.0;
            assert!((found - exact).abs() < 0.01, "{value}: {found} {exact}");
        }
    }

    #[test]
    fn a_logarithmic_axis_has_few_marks_between_its_values() {
        let ruler = |values: &[u64]| {
            let mut values = values.iter().copied();
            Ruler::new(Axis::Octets, Scale::Logarithmic, &mut values, 1_000)
        };
        assert_eq!(
            ruler(&[2_000, 50_000]).marks(),
            [2_000, 5_000, 10_000, 20_000, 50_000]
        );
        assert_eq!(ruler(&[54, 64_000_000]).marks().len(), 6);
        let all = ruler(&[1, 1_000_000]);
        assert_eq!((all.place(0), all.place(u64::MAX)), (0, 1_000));
        assert!(ruler(&[]).marks().len() < 8);
    }

    #[test]
    fn texts_stay_in_their_place_and_many_names_take_lines() {
        let curves: Vec<Curve> = (0..12)
            .map(|number| {
                Curve::new(
                    format!("<b>{number}</b> of them all"),
                    Look::Coloured(number),
                )
            })
            .collect();
        let svg = Picture::new("<script>", &curves, Axis::Count, Axis::Rate).svg();
        assert!(!svg.contains("<script>") && !svg.contains("<b>"), "{svg}");
        assert!(svg.contains("viewBox=\"0 0 760 348\""), "{svg}");
    }
}
