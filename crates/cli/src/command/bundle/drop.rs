//! `dhow bundle drop`: an operator's decision that a stored bundle goes no further.

use clap::Args;
use hyper::Method;

use crate::admin::{Admin, path_segment};
use crate::arguments::Common;
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};

/// Delete a stored bundle from the node
#[derive(Args, Debug)]
pub struct Drop {
    /// Its identity, as `dhow bundles --each` shows it: ipn:1.5/812345678901/3
    id: String,
}

impl Drop {
    /// Has the node delete the bundle.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        let path = format!("/v1/bundles/{}", path_segment(&self.id));
        let answer = Admin::of(common.node.as_ref())?.act(&Method::DELETE, &path, None)?;
        match common.form() {
            Form::Json => output::json(&answer)?,
            Form::Text => output::talk(&format!("bundle {} is dropped", self.id)),
        }
        Ok(Ending::Done)
    }
}
