//! The mount: the only place that knows FUSE.
