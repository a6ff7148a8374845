//! The page around it all.

/// It asks for nothing from elsewhere, follows what the reader's system wants, and is for paper too.
const STYLE: &str = include_str!("style.css");

/// A page that is being written. All added text is HTML: texts from elsewhere are [`escaped`] first.
#[derive(Debug)]
pub struct Page {
    out: String,
}

impl Page {
    /// A page with its title.
    #[must_use]
    pub fn new(title: &str) -> Self {
        let title = escaped(title);
        let out = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\
             <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"
        );
        Self { out }
    }

    /// Adds what is HTML already: a picture, a list, or a paragraph of its own kind.
    pub fn add(&mut self, html: &str) {
        self.out += html;
    }

    /// Adds a heading.
    pub fn heading(&mut self, words: &str) {
        self.out += &format!("<h2>{words}</h2>");
    }

    /// Adds a heading below one.
    pub fn subheading(&mut self, words: &str) {
        self.out += &format!("<h3>{words}</h3>");
    }

    /// Adds a paragraph; nothing where there are no words.
    pub fn paragraph(&mut self, words: &str) {
        self.of("", words);
    }

    /// Adds the paragraph that says the most.
    pub fn lead(&mut self, words: &str) {
        self.of(" class=\"lead\"", words);
    }

    /// Adds a paragraph about what is wrong.
    pub fn warning(&mut self, words: &str) {
        self.of(" class=\"bad\"", words);
    }

    /// Adds a small paragraph.
    pub fn note(&mut self, words: &str) {
        self.of(" class=\"note\"", words);
    }

    fn of(&mut self, class: &str, words: &str) {
        if !words.is_empty() {
            self.out += &format!("<p{class}>{words}</p>");
        }
    }

    /// The whole page.
    #[must_use]
    pub fn end(mut self) -> String {
        self.out += "</body></html>\n";
        self.out
    }
}

/// A text that cannot leave its place in the page.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
