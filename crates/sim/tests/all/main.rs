//! Simulations of whole networks, one file a subject: in one program, so that it is built once and its tests run side by side.

mod batteries;
mod beside;
mod congestion;
mod crowds;
mod datagrams;
mod delays;
mod disks;
mod edge;
mod fidelity;
mod line;
mod links;
mod ltp;
mod one_way;
mod radios;
mod regressions;
mod replay;
mod report;
mod room;
mod udp;
mod world;
mod worlds;
