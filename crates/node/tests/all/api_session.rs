//! The application API's session machine, from outside.

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
