//! The token that a collector and its clients have in common: a line in a file, so that it is in no list of processes.

use std::fs;
use std::path::Path;

use crate::failure::Failure;

/// The token in a file, without the spaces and the line end around it.
pub fn read_token(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!(
            "cannot read the token in {}: {error}",
            path.display()
        ))
    })?;
    match text.trim() {
        "" => Err(Failure::usage(format!(
            "there is no token in {}",
            path.display()
        ))),
        token if token.contains('\n') => Err(Failure::usage(format!(
            "the token in {} has more than one line",
            path.display()
        ))),
        token => Ok(token.to_owned()),
    }
}
