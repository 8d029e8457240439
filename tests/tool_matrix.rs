//! Every tool gives every byte of a mount's files, around the edges of pages, of read-ahead and of the largest request
//! (`fuse.md` 2.1): of objects, which are values, and of stored files, which are live.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Home, Mounted, python, tool, write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const S: &str = "1ab2c3d4-0000-4000-8000-000000000001";

const SIZES: [usize; 12] = [
    0,
    1,
    4095,
    4096,
    4097,
    131_071,
    131_072,
    131_073,
    (1 << 20) - 1,
    1 << 20,
    (1 << 20) + 1,
    20 << 20,
];

/// Numbered lines, as many bytes of them.
fn content(size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size + 16);
    for number in 0_u64.. {
        if bytes.len() >= size {
            break;
        }
        bytes.extend(format!("{number:07}-{}\n", number * 7 % 1000).bytes());
    }
    bytes.truncate(size);
    bytes
}

/// A home with one session whose stored results have these sizes, and copies of them beside the store.
fn home() -> Home {
    let home = Home::new();
    let line = r#"{"type":"user","uuid":"u1","timestamp":"2026-11-30T20:40:00.000Z","message":{"role":"user","content":"go"}}"#;
    write(
        &home.path(&format!("store/-p/{S}.jsonl")),
        format!("{line}\n"),
    );
    for size in SIZES {
        write(
            &home.path(&format!("store/-p/{S}/tool-results/s{size}")),
            content(size),
        );
        write(&home.path(&format!("plain/s{size}")), content(size));
    }
    home
}

/// The directories of the mount that show them.
fn places(mounted: &Mounted<'_>) -> [PathBuf; 2] {
    let session = mounted.path(&format!("sessions/{S}"));
    [
        session.join("objects"),
        session.join(format!("source/{S}/tool-results")),
    ]
}

/// The file of this size in one of them.
fn of_size(place: &Path, size: usize) -> PathBuf {
    let names = fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let is_it = |name: &std::ffi::OsString| {
        let name = name.to_str().unwrap();
        name.split('-').next() == Some(&format!("s{size}"))
    };
    place.join(names.into_iter().find(is_it).unwrap())
}

/// Runs a script with the file as `$1` and another path as `$2`.
fn script(script: &str, file: &Path, other: &Path) -> Vec<u8> {
    let words = ["-euo", "pipefail", "-c", script, "script"];
    let words = words.iter().map(Path::new);
    tool("bash", words.chain([file, other]).map(Path::as_os_str))
}

#[test]
fn tools_for_one_file_give_what_they_give_for_a_plain_file() {
    let home = home();
    let mounted = home.mount(&[&home.path("store")], "mnt");
    let copy = home.path("copy");
    // Each prints something of its file.
    let tools = [
        "cat \"$1\"",
        "wc -c < \"$1\"",
        "wc -lc \"$1\" | awk '{print $1, $2}'",
        "head -c 5000 \"$1\"",
        "head -n 3 \"$1\"",
        "tail -c 5000 \"$1\"",
        "tail -n 1 \"$1\"",
        "tac \"$1\"",
        "sort -r \"$1\"",
        "sha256sum < \"$1\"",
        "dd if=\"$1\" bs=777 status=none",
        "dd if=\"$1\" bs=1M status=none",
        "gzip -c \"$1\" | gzip -dc",
        "less \"$1\"",
        "grep -c - \"$1\" || true",
        "rg --mmap --count-matches -e 7- \"$1\" || true",
        "rg --no-mmap --count-matches -e 7- \"$1\" || true",
        "jq -R -s length \"$1\"",
        "git hash-object \"$1\"",
        "stat -c '%s %b' \"$1\" | awk '{print $1}'",
        "du -b \"$1\" | cut -f 1",
        "if test -s \"$1\"; then echo full; fi",
        "find \"$1\" -empty | wc -l",
        "cp \"$1\" \"$2\"; cat \"$2\"; rm \"$2\"",
        "rsync --checksum \"$1\" \"$2\"; cat \"$2\"; rm \"$2\"",
        "tar -C \"$(dirname \"$1\")\" -cf - \"$(basename \"$1\")\" | tar -xOf -",
        "cmp \"$1\" <(cat \"$1\")",
    ];
    for size in SIZES {
        let plain = home.path(&format!("plain/s{size}"));
        for place in places(&mounted) {
            let file = of_size(&place, size);
            for tool in tools {
                // Backwards and sorted, the largest takes long and shows no edge that a smaller one does not.
                if size > 2 << 20
                    && (tool.starts_with("tac")
                        || tool.starts_with("sort")
                        || tool.contains("bs=777"))
                {
                    continue;
                }
                let expected = script(tool, &plain, &copy);
                let found = script(tool, &file, &copy);
                assert!(found == expected, "{tool}: {}", file.display());
            }
            let blocks = format!("{}", size.div_ceil(512));
            let shown = script("stat -c %b \"$1\"", &file, &copy);
            assert_eq!(String::from_utf8(shown).unwrap().trim(), blocks);
        }
    }
}

#[test]
fn tools_for_trees_give_every_byte() {
    let home = home();
    let mounted = home.mount(&[&home.path("store")], "mnt");
    let out = home.path("out");
    for place in places(&mounted) {
        for copying in [
            "mkdir \"$2\"; cp -r \"$1/.\" \"$2\"",
            "mkdir \"$2\"; rsync -a \"$1/\" \"$2\"",
            "mkdir \"$2\"; tar -C \"$1\" -cf - . | tar -C \"$2\" -xf -",
            // What git stores it gives back.
            "git init -q \"$2\"; cp -r \"$1/.\" \"$2\"; cd \"$2\"; git --work-tree \"$1\" add . ; git checkout-index -fa; rm -rf .git",
        ] {
            script(copying, &place, &out);
            let same = "diff -r \"$1\" \"$2\"; find \"$2\" -type f | wc -l";
            let count = script(same, &place, &out);
            assert_eq!(
                String::from_utf8(count).unwrap().trim(),
                SIZES.len().to_string()
            );
            for size in SIZES {
                assert!(
                    fs::read(of_size(&out, size)).unwrap() == content(size),
                    "{copying}: {size}"
                );
            }
            script("chmod -R u+w \"$2\"; rm -rf \"$2\"", &place, &out);
        }
        let empty = script(
            "find \"$1\" -type f -empty | wc -l; find \"$1\" -size +1M | wc -l",
            &place,
            &out,
        );
        assert_eq!(String::from_utf8(empty).unwrap(), "1\n2\n");
        let found = script(
            "rg -l -e '^0000000-0$' \"$1\" | wc -l; rg --files \"$1\" | wc -l",
            &place,
            &out,
        );
        assert_eq!(
            String::from_utf8(found).unwrap(),
            format!("{}\n{}\n", SIZES.len() - 2, SIZES.len())
        );
    }
}

#[test]
fn python_reads_copies_and_maps_every_byte() {
    let home = home();
    let mounted = home.mount(&[&home.path("store")], "mnt");
    let program = r"
import io, mmap, os, shutil, sys, tarfile
plain, path, copy = sys.argv[1:]
want = open(plain, 'rb').read()
assert open(path, 'rb').read() == want
shutil.copyfile(path, copy)
assert open(copy, 'rb').read() == want
archive = io.BytesIO()
with tarfile.open(fileobj=archive, mode='w') as tar:
    tar.add(path, 'x')
archive.seek(0)
with tarfile.open(fileobj=archive) as tar:
    assert tar.extractfile('x').read() == want
with open(path, 'rb') as file:
    assert os.fstat(file.fileno()).st_size == len(want)
    for start in range(max(0, len(want) - 300000), len(want) + 1, 99991):
        assert os.pread(file.fileno(), 131073, start) == want[start:start + 131073]
    if want:
        for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
            with mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ) as mapped:
                assert mapped[:] == want
";
    for size in SIZES {
        for place in places(&mounted) {
            let file = of_size(&place, size);
            let output = Command::new(python::interpreter())
                .args(["-c", program])
                .args([
                    home.path(&format!("plain/s{size}")),
                    file.clone(),
                    home.path("copy"),
                ])
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {said}", file.display());
        }
    }
}
