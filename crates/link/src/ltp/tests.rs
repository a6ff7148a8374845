//! Segments and engines: against recordings, against each other, and against a judge.

mod wire;
