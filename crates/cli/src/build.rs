//! The source that this program was made of: `build.rs` beside this directory asks git.

/// The commit, with `+` behind it where files differed from it; `unknown` of sources without git.
pub const COMMIT: &str = env!("DHOW_COMMIT");

/// The version and the commit: `0.1.0 (0123456789ab)`.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("DHOW_COMMIT"), ")");
