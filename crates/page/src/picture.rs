//! Curves, bands and points as SVG, without a library: whole numbers in, text out. Colours are the page's.

use std::fmt::Write as _;

use super::axis::{Axis, Scale};
use super::page::escaped;

/// The size of a drawing, in its own units, and of the letters in it.
struct Frame {
    /// The class by which the page's style shows it.
    class: &'static str,
    width: u64,
    height: u64,
    /// Width of a letter at an axis where it is largest, near enough.
    letter: u64,
}

/// A drawing for windows and paper.
const BROAD: Frame = Frame {
    class: "broad",
    width: 760,
    height: 240,
    letter: 9,
};

/// A drawing for telephones, which is shown in about its own size.
const SLIM: Frame = Frame {
    class: "slim",
    width: 370,
    height: 240,
    letter: 7,
};

/// One of several drawings beside each other.
const PANEL: Frame = Frame {
    class: "panel",
    ..SLIM
};

const RIGHT: u64 = 24;
const TOP: u64 = 12;
const BOTTOM: u64 = 34;
/// The room between a label of the vertical axis and the frame.
const GAP: u64 = 8;

/// Half the width of a cross, in tenths.
const CROSS: u64 = 40;

/// Names along an axis that are marked.
const NAMES_MAX: u64 = 200;

/// Colours of curves, and kinds of dashes.
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
            // The first curves differ in their dashes too, for paper without colours; after them no pair comes twice until all are used.
            Self::Coloured(number) => {
                let dash = (number + number / COLOURS) % COLOURS;
                format!("c{} d{dash}", number % COLOURS)
            }
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
    /// The points in the order of the first number.
    pub points: Vec<(u64, u64)>,
    /// The lowest and the highest for the same first numbers.
    pub band: Vec<(u64, u64, u64)>,
    /// Lines up and down through points: a first number, the lowest and the highest.
    pub bars: Vec<(u64, u64, u64)>,
    /// Single values, which no line joins.
    pub dots: Vec<(u64, u64)>,
    /// Places along where there is no value, since what was to be measured failed: a cross each, at the upper edge.
    pub failures: Vec<u64>,
}

impl Curve {
    /// A curve without points.
    pub fn new(name: impl Into<String>, look: Look) -> Self {
        Self {
            name: name.into(),
            look,
            points: Vec::new(),
            band: Vec::new(),
            bars: Vec::new(),
            dots: Vec::new(),
            failures: Vec::new(),
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
    /// The curves in the order in which they are drawn.
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
    /// Curves of pictures beside this one: the axes are long enough for them too, so that the pictures can be compared.
    pub beside: &'a [Curve],
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
            beside: &[],
        }
    }

    /// The picture as HTML: its title, the legend, and a drawing for each kind of screen.
    #[must_use]
    pub fn figure(&self) -> String {
        format!(
            "<figure><figcaption>{}</figcaption>{}{}{}</figure>",
            escaped(self.title),
            legend(self.curves),
            self.drawn(&BROAD),
            self.drawn(&SLIM)
        )
    }

    /// Pictures beside each other as HTML, each below its own title, with one title and one legend for all. Curves of one name are to have
    /// one look.
    #[must_use]
    pub fn panels(title: &str, panels: &[Self]) -> String {
        let mut curves: Vec<Curve> = Vec::new();
        for curve in panels.iter().flat_map(|panel| panel.curves) {
            if !curves.iter().any(|known| known.name == curve.name) {
                curves.push(curve.clone());
            }
        }
        let mut out = format!(
            "<figure class=\"several\"><figcaption>{}</figcaption>{}<div class=\"panels\">",
            escaped(title),
            legend(&curves)
        );
        for panel in panels {
            // Writing into a text does not fail.
            let _ = write!(
                out,
                "<div><p>{}</p>{}</div>",
                escaped(panel.title),
                panel.drawn(&PANEL)
            );
        }
        out + "</div></figure>"
    }

    fn drawn(&self, frame: &Frame) -> String {
        let bottom = frame.height - BOTTOM;
        let up = self.ruler_up((bottom - TOP) * 10);
        let marks: Vec<(u64, String)> = (up.marks().into_iter())
            .map(|mark| (mark, self.up.say(mark)))
            .collect();
        let left = marks.iter().map(|(_, said)| letters(said)).max();
        let left = (left.unwrap_or(0) * frame.letter + GAP + 4).min(frame.width / 2);
        let end = frame.width - RIGHT;
        let along = self.ruler_along((end - left) * 10);
        let x = |value| left * 10 + along.place(value);
        let y = |value| bottom * 10 - up.place(value);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\"><title>{}</title>",
            frame.class,
            frame.width,
            frame.height,
            escaped(self.title),
        );
        for (from, to) in self.shades {
            let _ = write!(
                out,
                "<path class=\"shade\" d=\"M{0} {TOP}H{1}V{bottom}H{0}Z\"/>",
                tenths(x(*from)),
                tenths(x(*to)),
            );
        }
        for (mark, said) in &marks {
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{left} {0}H{end}\"/><text x=\"{1}\" y=\"{0}\" text-anchor=\"end\" dy=\"4\">{said}</text>",
                tenths(y(*mark)),
                left - GAP,
            );
        }
        let said = |mark: u64| self.along.say(mark);
        for label in labels(&along.marks(), frame, &x, &said) {
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{} {bottom}v5\"/>",
                tenths(label.mark)
            );
            if !label.is_said {
                continue;
            }
            let _ = write!(
                out,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                tenths(label.middle),
                bottom + 20,
                label.text
            );
        }
        let place = |(along, up): (u64, u64)| format!("{} {}", tenths(x(along)), tenths(y(up)));
        for curve in self.curves {
            write_curve(&mut out, curve, &place);
        }
        write_failures(&mut out, self.curves, &x);
        out.push_str("</svg>");
        out
    }

    fn ruler_along(&self, length: u64) -> Ruler {
        let values = self.curves.iter().chain(self.beside).flat_map(|curve| {
            let points = curve.points.iter().chain(&curve.dots).map(|point| point.0);
            let points = points.chain(curve.bars.iter().map(|bar| bar.0));
            points.chain(curve.failures.iter().copied())
        });
        let mut values = values.chain(self.shades.iter().map(|shade| shade.1));
        Ruler::new(self.along, self.along_scale, &mut values, length)
    }

    fn ruler_up(&self, length: u64) -> Ruler {
        let mut values = self.curves.iter().chain(self.beside).flat_map(|curve| {
            let points = curve.points.iter().chain(&curve.dots).map(|point| point.1);
            let ranges = curve.band.iter().chain(&curve.bars);
            points.chain(ranges.flat_map(|range| [range.1, range.2]))
        });
        Ruler::new(self.up, self.up_scale, &mut values, length)
    }
}

/// A mark of the horizontal axis, in tenths of the drawing's units.
struct Label {
    mark: u64,
    /// The middle of its text, which is beside the mark where the drawing ends.
    middle: u64,
    text: String,
    is_said: bool,
}

/// Marks with their texts: of each so many one is said, so that no text reaches into the next.
fn labels(
    marks: &[u64],
    frame: &Frame,
    x: &dyn Fn(u64) -> u64,
    said: &dyn Fn(u64) -> String,
) -> Vec<Label> {
    let half = |text: &str| letters(text) * frame.letter * 5;
    let each = marks.iter().map(|mark| {
        let (mark, text) = (x(*mark), said(*mark));
        let middle = mark.min((frame.width * 10).saturating_sub(half(&text)));
        let is_said = true;
        Label {
            mark,
            middle,
            text,
            is_said,
        }
    });
    let mut labels: Vec<Label> = each.collect();
    let is_free = |step: &usize| {
        let shown: Vec<&Label> = labels.iter().step_by(*step).collect();
        { shown.iter().zip(shown.iter().skip(1)) }.all(|(one, next)| {
            let room = half(&one.text) + half(&next.text) + 10 * GAP;
            one.middle + room <= next.middle
        })
    };
    let step = (1..labels.len()).find(is_free).unwrap_or(labels.len());
    for (number, label) in labels.iter_mut().enumerate() {
        label.is_said = number % step.max(1) == 0;
    }
    labels
}

/// Curves with their signs and names; text of the page, which takes as many lines as it needs.
fn legend(curves: &[Curve]) -> String {
    let longest = curves.iter().map(|curve| letters(&curve.name)).max();
    let mut out = format!(
        "<p class=\"legend\" style=\"--letters:{}\">",
        longest.unwrap_or(0)
    );
    for curve in curves {
        let class = curve.look.class();
        let is_bare = curve.points.is_empty() && curve.band.is_empty();
        let sign = if is_bare && curve.dots.is_empty() && !curve.failures.is_empty() {
            format!("<path class=\"cross {class}\" d=\"{}\"/>", cross(140, 60))
        } else if is_bare {
            format!("<circle class=\"dot {class}\" cx=\"14\" cy=\"6\" r=\"3\"/>")
        } else {
            format!("<path class=\"curve {class}\" d=\"M0 6h28\"/>")
        };
        let _ = write!(
            out,
            "<span><svg class=\"sign\" viewBox=\"0 0 28 12\" aria-hidden=\"true\">{sign}</svg>{}</span>",
            escaped(&curve.name)
        );
    }
    out + "</p>"
}

fn letters(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(0)
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

/// The crosses of all curves: those of one place one below the other.
fn write_failures(out: &mut String, curves: &[Curve], x: &dyn Fn(u64) -> u64) {
    let mut marked: Vec<u64> = Vec::new();
    for curve in curves {
        for along in &curve.failures {
            let above = marked.iter().filter(|it| *it == along).count();
            let above = u64::try_from(above).unwrap_or(0);
            let y = TOP * 10 + CROSS + above * 3 * CROSS;
            let (class, path) = (curve.look.class(), cross(x(*along), y));
            let _ = write!(out, "<path class=\"cross {class}\" d=\"{path}\"/>");
            marked.push(*along);
        }
    }
}

/// A cross about a point, in tenths of the drawing's units.
fn cross(x: u64, y: u64) -> String {
    let (left, right) = (tenths(x.saturating_sub(CROSS)), tenths(x + CROSS));
    let (top, bottom) = (tenths(y.saturating_sub(CROSS)), tenths(y + CROSS));
    format!("M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}")
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
    fn texts_stay_in_their_place() {
        let curves = [Curve::new("<b>1</b> of them all", Look::Coloured(1))];
        let picture = Picture::new("<script>", &curves, Axis::Count, Axis::Rate);
        for html in [
            picture.figure(),
            Picture::panels("<script>", std::slice::from_ref(&picture)),
        ] {
            assert!(
                !html.contains("<script>") && !html.contains("<b>"),
                "{html}"
            );
        }
    }

    #[test]
    fn curves_of_one_picture_differ_without_colours_and_later_in_both() {
        let classes = (0..COLOURS * COLOURS).map(|number| Look::Coloured(number).class());
        let classes: std::collections::BTreeSet<String> = classes.collect();
        assert_eq!(classes.len(), COLOURS * COLOURS);
        let dashes = (0..COLOURS).map(|number| Look::Coloured(number).class());
        let dashes = dashes.filter_map(|class| Some(class.split_once(' ')?.1.to_owned()));
        let dashes: std::collections::BTreeSet<String> = dashes.collect();
        assert_eq!(dashes.len(), COLOURS);
    }

    #[test]
    fn texts_along_an_axis_do_not_reach_into_each_other_nor_over_the_end() {
        for frame in [&BROAD, &SLIM] {
            for count in [1_u64, 2, 7, 40] {
                let marks: Vec<u64> = (0..count).collect();
                let end = (frame.width - RIGHT) * 10;
                let x = |mark: u64| 800 + scaled(mark, count - 1, end - 800);
                let said = |_| "1,000 Mbit/s".to_owned();
                let labels = labels(&marks, frame, &x, &said);
                assert_eq!(labels.len(), marks.len());
                let half = 12 * frame.letter * 5;
                let said: Vec<u64> = { labels.iter() }
                    .filter(|label| label.is_said)
                    .map(|label| label.middle)
                    .collect();
                assert_eq!(said.first(), Some(&x(0)));
                for pair in said.windows(2) {
                    assert!(pair[0] + 2 * half < pair[1], "{said:?}");
                }
                assert!(said.iter().all(|middle| middle + half <= frame.width * 10));
            }
        }
    }

    #[test]
    fn what_failed_has_a_cross_and_its_place_on_the_axis() {
        let mut failing = Curve::new("fails", Look::Coloured(0));
        failing.failures = vec![9];
        let mut other =
            Curve::new("fails in part", Look::Coloured(1)).through(vec![(1, 1), (2, 2)]);
        other.failures = vec![9];
        let curves = [failing, other];
        let html = Picture::new("title", &curves, Axis::Count, Axis::Count).figure();
        let (legend, drawings) = html.split_once("</p>").expect("a legend");
        // The first has no line to be known by.
        assert_eq!(legend.matches("class=\"cross c0").count(), 1, "{legend}");
        assert_eq!(legend.matches("class=\"curve c1").count(), 1, "{legend}");
        let crosses: Vec<&str> = drawings.split("class=\"cross ").skip(1).collect();
        // In the broad and the slim drawing one of each, below each other.
        assert_eq!(crosses.len(), 4, "{html}");
        let place = |cross: &str| cross.split("d=\"").nth(1).map(|d| d[..12].to_owned());
        assert_ne!(place(crosses[0]), place(crosses[1]));
        assert!(
            drawings.contains(">9</text>") || drawings.contains(">10</text>"),
            "{html}"
        );
    }

    #[test]
    fn pictures_beside_each_other_have_one_legend_and_axes_of_one_length() {
        let curve = |most: u64| [Curve::new("one", Look::Main).through(vec![(0, 0), (10, most)])];
        let (low, high) = (curve(3), curve(300));
        let mut panels =
            [&low, &high].map(|curves| Picture::new("part", curves, Axis::Count, Axis::Count));
        let all: Vec<Curve> = low.iter().chain(&high).cloned().collect();
        for panel in &mut panels {
            panel.beside = &all;
        }
        let html = Picture::panels("whole", &panels);
        assert_eq!(html.matches("class=\"sign\"").count(), 1, "{html}");
        assert_eq!(html.matches(">300</text>").count(), 2, "{html}");
    }
}
