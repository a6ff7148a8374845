//! Texts as TOML has them.

/// A text in quotes: JSON's escapes are among TOML's, which wants one more character escaped.
pub(crate) fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace('\u{7f}', r"\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_something_else_is_escaped() {
        assert_eq!(quoted("a \"b\"\\"), r#""a \"b\"\\""#);
        assert_eq!(quoted("1\n2\u{1}\u{7f}é"), r#""1\n2\u0001\u007fé""#);
    }
}
