//! Framed session logs, as whoever writes and reads them sees them (`spec/session-log.md`).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod concurrency;
mod crash;
mod damage;
mod fixtures;
mod limits;
mod support;
mod writing;
