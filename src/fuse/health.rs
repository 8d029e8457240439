//! What this machine has and lacks for mounting. Nothing is mounted or changed to find out.

use super::mount::{MountError, try_device};
use super::{helper, mountinfo, point};
use nix::unistd::geteuid;
use std::io;
use std::path::{Path, PathBuf};

/// Where the machine's owner says what ordinary users may do.
const CONFIGURATION: &str = "/etc/fuse.conf";

/// A mount of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where it is.
    pub point: PathBuf,
    /// Whether the process behind it has died.
    pub is_dead: bool,
}

/// Whether `/dev/fuse` can be opened.
pub fn device() -> Result<(), MountError> {
    try_device()
}

/// Whether an ordinary user can mount: through fusermount3, unless he is root and needs no help.
pub fn helper() -> Result<(), MountError> {
    if geteuid().is_root() || helper::is_there() {
        Ok(())
    } else {
        Err(MountError::NoHelper)
    }
}

/// Whether this user may let others read his mount.
pub fn may_allow_other() -> bool {
    geteuid().is_root() || allows_other(Path::new(CONFIGURATION))
}

fn allows_other(configuration: &Path) -> bool {
    let text = std::fs::read_to_string(configuration).unwrap_or_default();
    text.lines().any(|line| line.trim() == "user_allow_other")
}

/// The mounts of sessionfs that this process sees.
pub fn mounts() -> io::Result<Vec<Seen>> {
    let all = mountinfo::all()?;
    let ours = all.iter().filter(|mounted| mounted.is_ours());
    let seen = ours.map(|mounted| Seen {
        point: mounted.point.clone(),
        is_dead: point::is_dead(mounted),
    });
    Ok(seen.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_allowed_by_a_line_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fuse.conf");
        assert!(!allows_other(&path));
        for (text, allows) in [
            ("# user_allow_other\nmount_max = 10\n", false),
            ("mount_max = 10\n user_allow_other\n", true),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(allows_other(&path), allows);
        }
    }
}
