//! The node from outside, one file a subject: in one program, so that it is built once and its tests run side by side.
#![allow(
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    reason = "a test says what is wrong by failing"
)]

mod acknowledgments;
mod api_corpus;
mod api_session;
mod before_sync;
mod changes;
mod checksums;
mod copies;
mod crossing;
mod custody;
mod custody_one_way;
mod datagrams;
mod detours;
mod discovery;
mod disk_room;
mod dropping;
mod echo;
mod expiring;
mod external;
mod first_read;
mod flooding;
mod full;
mod handshake;
mod hostile;
mod limits;
mod links;
mod ltp;
mod ltp_blocks;
mod ltp_contacts;
mod one_way;
mod passing;
mod passing_ltp;
mod perf;
mod planned;
mod priorities;
mod receipts;
mod resuming;
mod ring;
mod routes;
mod tunnels;
mod turns;
mod version6;
mod voyages;
mod why;
mod world;
