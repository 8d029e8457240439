//! What is mounted where, from the kernel's own list. Reading it never touches a mount, so a dead one cannot hang it.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Our file system type, as `/proc/self/mountinfo` and `df -T` show it.
pub(super) const FILE_SYSTEM: &str = "fuse.sessionfs";

const LIST: &str = "/proc/self/mountinfo";

/// One mount of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    /// `major:minor`; no other file system has it as long as this one lives.
    pub(super) device: String,
    /// Where it is mounted.
    pub(super) point: PathBuf,
    /// The type, such as `ext4` or `fuse.sessionfs`.
    pub(super) file_system: String,
}

impl Mounted {
    /// Whether it is one of ours.
    pub(super) fn is_ours(&self) -> bool {
        self.file_system == FILE_SYSTEM
    }
}

/// All mounts that this process sees, a later one over an earlier one at the same point.
pub(super) fn all() -> io::Result<Vec<Mounted>> {
    Ok(parse(&std::fs::read(LIST)?))
}

/// The mount that is seen at this point, if it is one.
pub(super) fn topmost<'a>(all: &'a [Mounted], point: &Path) -> Option<&'a Mounted> {
    all.iter().rev().find(|mounted| mounted.point == point)
}

fn parse(list: &[u8]) -> Vec<Mounted> {
    list.split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .collect()
}

/// `36 35 98:0 /root /point options [optional…] - type source options`, see proc(5).
fn parse_line(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = fields.nth(2)?;
    let point = fields.nth(1)?;
    let file_system = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Mounted {
        device: String::from_utf8_lossy(device).into_owned(),
        point: PathBuf::from(OsString::from_vec(unescape(point))),
        file_system: String::from_utf8_lossy(file_system).into_owned(),
    })
}

/// The kernel writes space, tab, line break and backslash as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        let escaped = octal(tail).filter(|_| *byte == b'\\');
        if escaped.is_some() {
            rest = &tail[3..];
        }
        plain.push(escaped.unwrap_or(*byte));
    }
    plain
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits.get(..3)?).ok()?;
    u8::from_str_radix(digits, 8).ok()
}

/// Whether `path` is `point` or lies below it, by its text; a deleted file's path still counts.
pub(super) fn is_below(path: &Path, point: &Path) -> bool {
    let (path, point) = (path.as_os_str().as_bytes(), point.as_os_str().as_bytes());
    path.strip_prefix(point)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || point == b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_device_point_and_type() {
        let list = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
            40 27 0:52 / /home/me/my\\040mount\\134x ro,nosuid shared:3 master:1 - fuse.sessionfs me ro,user_id=0\n\
            short line\n";
        let all = parse(list);
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].device, "0:52");
        assert_eq!(all[1].point, Path::new("/home/me/my mount\\x"));
        assert!(all[1].is_ours() && !all[0].is_ours());
    }

    #[test]
    fn the_later_mount_is_on_top() {
        let list = b"1 0 0:1 / /m rw - tmpfs a rw\n2 1 0:2 / /m rw - fuse.sessionfs b ro\n";
        let all = parse(list);
        assert_eq!(topmost(&all, Path::new("/m")).unwrap().device, "0:2");
        assert_eq!(topmost(&all, Path::new("/n")), None);
    }

    #[test]
    fn below_goes_by_whole_names() {
        let point = Path::new("/a/b");
        for (path, below) in [
            ("/a/b", true),
            ("/a/b/c (deleted)", true),
            ("/a/bc", false),
            ("/a", false),
        ] {
            assert_eq!(is_below(Path::new(path), point), below, "{path}");
        }
        assert!(is_below(Path::new("/x"), Path::new("/")));
    }
}
