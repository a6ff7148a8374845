//! Pictures beside each other, where one would have too many curves: one for each value of a key, with the other keys as curves.

use std::collections::BTreeMap;

use dhow_page::{Curve, Look, Picture};

use super::curves::Point;

/// Curves of one picture, at most: those of more are told apart by nobody.
pub(super) const CURVES_MAX: usize = 6;

/// The keys of a curve, with their values.
type Keys = Vec<(String, String)>;

/// The keys of each curve, by its name.
pub(super) fn keys(points: &[Point<'_>], named: impl Fn(&str) -> String) -> BTreeMap<String, Keys> {
    let each = points.iter().map(|point| &point.cell);
    each.map(|cell| (named(&cell.group), cell.keys.clone()))
        .collect()
}

/// A picture with more than [`CURVES_MAX`] curves as several beside each other, with axes of one length: one for each value of the key `apart`, or
/// of one that is chosen. Curves without keys are in each.
pub(super) fn figure(
    whole: &Picture<'_>,
    keys: &BTreeMap<String, Keys>,
    apart: Option<&str>,
) -> String {
    let (own, others): (Vec<&Curve>, Vec<&Curve>) =
        (whole.curves.iter()).partition(|curve| keys.contains_key(&curve.name));
    let mut panels: Vec<(String, Vec<Curve>)> = Vec::new();
    let of = |curve: &Curve| keys.get(&curve.name).map_or(&[][..], Vec::as_slice);
    let own_keys: Vec<&[(String, String)]> = own.iter().map(|curve| of(curve)).collect();
    let split = (apart.map(str::to_owned)).or_else(|| split_by(&own_keys));
    // One look for each combination of the keys that are left, in every panel.
    let mut rest: Vec<String> = Vec::new();
    for curve in own {
        let (title, name) = match &split {
            None => (String::new(), curve.name.clone()),
            Some(key) => {
                let (of_panel, of_curve): (Vec<_>, Vec<_>) =
                    of(curve).iter().partition(|(name, _)| name == key);
                (said(&of_panel), said(&of_curve))
            }
        };
        if !rest.contains(&name) {
            rest.push(name.clone());
        }
        let place = rest.iter().position(|it| *it == name).unwrap_or(0);
        let curve = Curve {
            name,
            look: Look::Coloured(place),
            ..curve.clone()
        };
        match panels.iter_mut().find(|(known, _)| *known == title) {
            Some((_, curves)) => curves.push(curve),
            None => panels.push((title, vec![curve])),
        }
    }
    let panels: Vec<(String, Vec<Curve>)> = panels
        .into_iter()
        .flat_map(|(title, curves)| in_parts(&title, &curves))
        .map(|(title, mut curves)| {
            curves.extend(others.iter().map(|curve| (*curve).clone()));
            (title, curves)
        })
        .collect();
    let pictures = panels.iter().map(|(title, curves)| Picture {
        title,
        curves,
        beside: whole.curves,
        ..whole.clone()
    });
    let pictures: Vec<Picture<'_>> = pictures.collect();
    Picture::panels(whole.title, &pictures)
}

/// The key of which each value has a picture of its own: with it the fewest pictures have no more than [`CURVES_MAX`] curves, or else it has
/// the most values. Nothing where curves differ in one key alone.
fn split_by(curves: &[&[(String, String)]]) -> Option<String> {
    let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
    for (key, value) in curves.iter().copied().flatten() {
        match values.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) if known.contains(&value.as_str()) => {}
            Some((_, known)) => known.push(value),
            None => values.push((key, vec![value])),
        }
    }
    values.retain(|(_, values)| values.len() > 1);
    if values.len() < 2 {
        return None;
    }
    let is_enough =
        |(_, values): &&(&str, Vec<&str>)| curves.len().div_ceil(values.len()) <= CURVES_MAX;
    let enough = values.iter().filter(is_enough);
    let fewest = enough.min_by_key(|(_, values)| values.len());
    let found = fewest.or_else(|| values.iter().max_by_key(|(_, values)| values.len()));
    found.map(|(key, _)| (*key).to_owned())
}

/// The curves of one panel as panels with no more than [`CURVES_MAX`] curves, which say which of all they have.
fn in_parts(title: &str, curves: &[Curve]) -> Vec<(String, Vec<Curve>)> {
    let parts = curves.chunks(CURVES_MAX);
    let is_one = parts.len() == 1;
    let said = |part: &[Curve]| {
        let ends = [part.first(), part.last()].map(|it| it.map_or("", |curve| &curve.name));
        let [first, last] = ends;
        let range = match first == last {
            true => first.to_owned(),
            false => format!("{first} to {last}"),
        };
        match title {
            "" => range,
            title => format!("{title}; {range}"),
        }
    };
    parts
        .map(|part| match is_one {
            true => (title.to_owned(), part.to_vec()),
            false => (said(part), part.to_vec()),
        })
        .collect()
}

fn said(keys: &[&(String, String)]) -> String {
    let parts = keys.iter().map(|(key, value)| format!("{key} = {value}"));
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use dhow_page::Axis;

    use super::*;

    /// The figure of curves that differ in keys with so many values each.
    fn figure_of(sizes: &[usize]) -> String {
        let mut all: Vec<Keys> = vec![Vec::new()];
        for (key, size) in sizes.iter().enumerate() {
            let longer = all.iter().flat_map(|keys| {
                (0..*size).map(move |value| {
                    let last = (format!("k{key}"), format!("v{value}"));
                    keys.iter().cloned().chain([last]).collect::<Keys>()
                })
            });
            all = longer.collect();
        }
        let name = |keys: &Keys| said(&keys.iter().collect::<Vec<_>>());
        let named: BTreeMap<String, Keys> =
            all.iter().map(|keys| (name(keys), keys.clone())).collect();
        let mut curves: Vec<Curve> = { all.iter() }
            .map(|keys| Curve::new(name(keys), Look::Main).through(vec![(1, 1), (2, 2)]))
            .collect();
        curves.push(Curve::new("the paper", Look::Faint).through(vec![(1, 9)]));
        let whole = Picture::new("all", &curves, Axis::Count, Axis::Count);
        figure(&whole, &named, None)
    }

    #[test]
    fn twelve_curves_of_two_keys_are_three_panels_of_four_curves() {
        let html = figure_of(&[3, 4]);
        assert_eq!(html.matches("class=\"panel\"").count(), 3, "{html}");
        // Four curves and the paper's.
        assert_eq!(html.matches("class=\"sign\"").count(), 5, "{html}");
        assert!(html.contains("<p>k0 = v2</p>"), "{html}");
        assert!(html.contains("</svg>k1 = v3</span>"), "{html}");
    }

    #[test]
    fn sixty_curves_of_one_key_are_ten_panels_that_say_which_they_have() {
        let html = figure_of(&[60]);
        assert_eq!(html.matches("class=\"panel\"").count(), 10, "{html}");
        assert!(html.contains("<p>k0 = v54 to k0 = v59</p>"), "{html}");
    }

    #[test]
    fn no_panel_has_more_curves_than_can_be_told_apart() {
        for sizes in [&[7][..], &[20, 20], &[5, 5, 5], &[2, 60], &[1, 13]] {
            for panel in figure_of(sizes).split("class=\"panel\"").skip(1) {
                let curves = panel.matches("class=\"curve").count();
                assert!(curves <= CURVES_MAX + 1, "{sizes:?}: {curves}");
            }
        }
    }
}
