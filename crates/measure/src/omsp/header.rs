//! The header, a client's first message: `KEY: VALUE` lines, then an empty one.

use crate::schema::{Schema, SchemaError, shortened};

/// Octets of a domain's name: it becomes the name of a file.
pub const DOMAIN_OCTETS_MAX: usize = 64;

/// Octets of a sender's name, and of a program's.
pub const SENDER_OCTETS_MAX: usize = 128;

/// Start times that are believed, seconds of Unix time: whole in a double.
const START_MAX_S: u64 = 1 << 53;

/// The encoding of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// A line a row.
    #[default]
    Text,
    /// A packet a row.
    Binary,
}

/// The identity of one of the sessions that a client sends as parcels, each whole in itself, so that they may come late, in another order,
/// twice or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The client's own name for its run, drawn at random.
    pub run: u64,
    /// Its number, from 1.
    pub number: u64,
}

/// A client's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version of the protocol, 1 to 5.
    pub protocol: u8,
    /// The database that the rows are for: letters, digits, `_`, `-` and `.`, no `.` or `-` first.
    pub domain: String,
    /// The start time of the client's timestamps, seconds of Unix time.
    pub start_s: u64,
    /// The name of the sender.
    pub sender: String,
    /// The measured program.
    pub app: String,
    /// The encoding of rows.
    pub content: Encoding,
    /// The token that the collector asks for if it listens to other machines.
    pub token: Option<String>,
    /// True if the client reads the collector's answer to its header: OML's clients do not, and an answer left unread would cut their session.
    pub reads_answer: bool,
    /// The client's own name for its run, drawn at random: all sessions of it go on with the same numbers of rows, the first of a stream is 1.
    pub run: Option<u64>,
    /// The run and number of this session, if the sessions of the run arrive as parcels.
    pub parcel: Option<Parcel>,
    /// The streams that are known already.
    pub schemas: Vec<(u8, Schema)>,
}

impl Header {
    /// The header as text, with the empty line.
    pub fn write(&self) -> String {
        let mut text = format!(
            "protocol: {}\ndomain: {}\nstart-time: {}\nsender-id: {}\napp-name: {}\n",
            self.protocol, self.domain, self.start_s, self.sender, self.app
        );
        if let Some(token) = &self.token {
            text.push_str(&format!("token: {token}\n"));
        }
        if self.reads_answer {
            text.push_str("answer: yes\n");
        }
        if let Some(run) = self.run {
            text.push_str(&format!("run: {run:x}\n"));
        }
        if let Some(parcel) = &self.parcel {
            text.push_str(&format!("parcel: {:x} {}\n", parcel.run, parcel.number));
        }
        for (index, schema) in &self.schemas {
            text.push_str(&format!("schema: {index} {schema}\n"));
        }
        text.push_str(match self.content {
            Encoding::Text => "content: text\n\n",
            Encoding::Binary => "content: binary\n\n",
        });
        text
    }
}

/// A header of which lines are still to come.
#[derive(Debug, Default)]
pub(super) struct Reader {
    protocol: Option<u8>,
    domain: Option<String>,
    start_s: Option<u64>,
    sender: Option<String>,
    app: Option<String>,
    content: Encoding,
    token: Option<String>,
    reads_answer: bool,
    run: Option<u64>,
    parcel: Option<Parcel>,
    schemas: Vec<(u8, Schema)>,
}

/// The answer of a collector to a header that it takes, for clients that read it; [`REFUSED`] stands before the reason if it
/// refuses.
pub const ACCEPTED: &str = "accepted";
/// The beginning of the answer to a header that is refused; see [`ACCEPTED`].
pub const REFUSED: &str = "refused: ";

/// The key of the metadata in which a client that names its run says, of `.STREAM`, how many rows of it were made.
pub const MADE: &str = "made";

/// Streams of a session: the index of a packet has one octet.
pub(super) const SCHEMAS_MAX: usize = 256;

impl Reader {
    /// Takes one line that is not empty. Keys that are not known are ignored, as later versions may have more.
    pub(super) fn line(&mut self, line: &str) -> Result<(), HeaderError> {
        let (key, value) = line
            .split_once(':')
            .ok_or_else(|| HeaderError::NoColon(shortened(line)))?;
        let value = value.trim();
        match key.trim() {
            "protocol" => {
                let version = value.parse().ok().filter(|v| super::VERSIONS.contains(v));
                self.protocol = Some(version.ok_or_else(|| bad("protocol", value))?);
            }
            "domain" | "experiment-id" => {
                check_domain(value)?;
                self.domain = Some(value.to_owned());
            }
            "start-time" | "start_time" => {
                let seconds = value.parse().ok().filter(|s| *s <= START_MAX_S);
                self.start_s = Some(seconds.ok_or_else(|| bad("start-time", value))?);
            }
            "sender-id" => {
                check_sender(value)?;
                self.sender = Some(value.to_owned());
            }
            "app-name" => {
                if !value.is_empty() {
                    check_name("app-name", value)?;
                }
                self.app = Some(value.to_owned());
            }
            "answer" => self.reads_answer = value == "yes",
            // Others may mean something else by it.
            "run" => self.run = u64::from_str_radix(value, 16).ok(),
            "parcel" => {
                let parcel = read_parcel(value).ok_or_else(|| bad("parcel", value))?;
                self.parcel = Some(parcel);
            }
            "token" => self.token = Some(value.to_owned()),
            "content" => {
                self.content = match value {
                    "text" => Encoding::Text,
                    "binary" => Encoding::Binary,
                    _ => return Err(bad("content", value)),
                };
            }
            "schema" => {
                let schema = read_definition(value)?;
                if self.schemas.len() == SCHEMAS_MAX {
                    return Err(HeaderError::TooManySchemas);
                }
                self.schemas.push(schema);
            }
            _ => {}
        }
        Ok(())
    }

    /// The header, once the empty line has come.
    pub(super) fn finish(self) -> Result<Header, HeaderError> {
        Ok(Header {
            protocol: self.protocol.ok_or(HeaderError::Missing("protocol"))?,
            domain: self.domain.ok_or(HeaderError::Missing("domain"))?,
            start_s: self.start_s.ok_or(HeaderError::Missing("start-time"))?,
            sender: self.sender.ok_or(HeaderError::Missing("sender-id"))?,
            app: self.app.unwrap_or_default(),
            content: self.content,
            token: self.token,
            reads_answer: self.reads_answer,
            run: self.run,
            parcel: self.parcel,
            schemas: self.schemas,
        })
    }
}

/// Reads `RUN NUMBER`.
fn read_parcel(text: &str) -> Option<Parcel> {
    let (run, number) = text.split_once(' ')?;
    Some(Parcel {
        run: u64::from_str_radix(run, 16).ok()?,
        number: number.parse().ok()?,
    })
}

/// Reads `INDEX NAME FIELD:TYPE …`.
pub(super) fn read_definition(text: &str) -> Result<(u8, Schema), HeaderError> {
    let wrong = |reason| HeaderError::Schema {
        line: shortened(text),
        reason,
    };
    let (index, rest) = text
        .trim_start()
        .split_once(' ')
        .ok_or_else(|| wrong(SchemaError::Empty))?;
    let index = index.parse().map_err(|_| bad("schema index", index))?;
    Ok((index, Schema::parse(rest).map_err(wrong)?))
}

/// A domain becomes the name of a file, so nothing may lead out of the directory or hide.
///
/// # Errors
/// It is empty, too long, has other characters than letters, digits, `_`, `-` and `.`, or begins with `.` or `-`.
pub fn check_domain(domain: &str) -> Result<(), HeaderError> {
    let is_plain = domain
        .bytes()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.'));
    let begins = domain
        .bytes()
        .next()
        .is_some_and(|c| c.is_ascii_alphanumeric() || c == b'_');
    if is_plain && begins && domain.len() <= DOMAIN_OCTETS_MAX {
        Ok(())
    } else {
        Err(bad("domain", domain))
    }
}

/// A sender's name is stored, and shown to people.
///
/// # Errors
/// It is empty, too long or has control characters.
pub fn check_sender(sender: &str) -> Result<(), HeaderError> {
    check_name("sender-id", sender)
}

fn check_name(key: &'static str, name: &str) -> Result<(), HeaderError> {
    if name.is_empty() || name.len() > SENDER_OCTETS_MAX || name.contains(char::is_control) {
        return Err(bad(key, name));
    }
    Ok(())
}

fn bad(key: &'static str, value: &str) -> HeaderError {
    HeaderError::Bad {
        key,
        value: shortened(value),
    }
}

/// Why a client's header is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// A line that is none.
    #[error("the header's line '{0}' has no colon")]
    NoColon(String),
    /// Something that must be there is not.
    #[error("the header has no {0}")]
    Missing(&'static str),
    /// A value that cannot be.
    #[error("the {key} '{value}' cannot be taken")]
    Bad {
        /// The key of the value.
        key: &'static str,
        /// The value, shortened.
        value: String,
    },
    /// A schema that is none.
    #[error("the schema '{line}' cannot be taken: {reason}")]
    Schema {
        /// The schema's line, shortened.
        line: String,
        /// The fault in the schema.
        reason: SchemaError,
    },
    /// More streams than can be told apart.
    #[error("there are more than {SCHEMAS_MAX} schemas")]
    TooManySchemas,
    /// Text that is not UTF-8.
    #[error("the header is not UTF-8")]
    NotUtf8,
    /// Longer than a header may be.
    #[error("the header is longer than {0} octets")]
    TooLong(usize),
}

impl HeaderError {
    /// The advice for a person, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Bad { key, .. } if *key == "domain" => Some(
                "a domain is letters, digits, '_', '-' and '.', no '-' or '.' first, 64 at most",
            ),
            Self::Bad { key, .. } if *key == "sender-id" => {
                Some("a sender's name has 1 to 128 octets and no control characters")
            }
            _ => None,
        }
    }
}
