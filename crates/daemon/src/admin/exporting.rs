//! The content of the store as the body of an answer, as fast as it is read.

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;

use super::ask::{Asker, Gone};
use super::routes::Office;
use crate::export::source::Cursor;
use crate::web::{Pieces, Rest};

/// The rest of an export.
struct Export {
    asker: Asker,
    cursor: Cursor,
}

impl Rest for Export {
    type Error = Gone;

    async fn next(self) -> Result<(Bytes, Option<Self>), Gone> {
        let (octets, cursor) = self.asker.export(self.cursor).await?;
        let asker = self.asker;
        let rest = cursor.map(|cursor| Self { asker, cursor });
        Ok((Bytes::from(octets), rest))
    }
}

/// Answers with the whole.
pub(super) async fn export(State(office): State<Office>) -> Response {
    let pieces = Pieces::of(Export {
        asker: office.asker,
        cursor: Cursor::default(),
    });
    let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
    (kind, Body::new(pieces)).into_response()
}
