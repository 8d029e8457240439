//! The mount: the only place that knows FUSE. It shows any [`crate::tree::View`] and knows nothing of sessions.
//!
//! [`mount::serve`] does all of it: mounts, answers until a signal or somebody else's unmount, and leaves nothing behind.
//! [`point`] says whether a directory can be mounted on, and unmounts; [`daemon`] puts the process into the background.

mod adapter;
mod attr;
mod busy;
pub mod daemon;
mod handles;
pub mod health;
mod helper;
mod inodes;
mod listing;
pub mod mount;
mod mountinfo;
mod own;
pub mod point;
mod pool;
mod requests;
mod signals;

pub use busy::{Use, User};
