//! The Licklider Transmission Protocol: RFC 5326.

mod fault;
mod segment;
#[cfg(test)]
mod tests;
mod wire;
