//! Bundles between versions 6 and 7 of the Bundle Protocol (`docs/gateway.md`): header blocks of one version as those of the other. The payload
//! passes untouched, but for administrative records.
//!
//! Pure functions: nothing here knows a store, a link or a clock. Start reading at [`identity`] (a bundle stays the same bundle), then at
//! [`untranslatable`].

pub mod identity;
pub mod untranslatable;

pub use untranslatable::Untranslatable;
