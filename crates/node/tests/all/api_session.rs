//! The application API's session machine, from outside.
#![allow(
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops where it is wrong"
)]

#[path = "api/captures.rs"]
mod captures;
#[path = "api/client.rs"]
mod client;
#[path = "api/delivery.rs"]
mod delivery;
#[path = "api/hostile.rs"]
mod hostile;
#[path = "api/keepalive.rs"]
mod keepalive;
#[path = "api/request.rs"]
mod request;
#[path = "api/stock_client.rs"]
mod stock_client;
