//! The network of many tests: nodes in a row.

/// A scenario's text: so many nodes in a row, n1 and on, each with these keys, and from the first to the last traffic with those. Sections may follow
/// the keys of either.
pub fn line(count: u32, keys: &str, traffic: &str) -> String {
    format!(
        r#"
        [[line]]
        name = "n"
        count = {count}
        {keys}
        [[traffic]]
        from = "n1"
        to = "n{count}"
        {traffic}
        "#
    )
}
