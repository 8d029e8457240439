//! The kernel's requests one by one: [`fuser::Filesystem`] over the [`Adapter`].

use super::adapter::{Adapter, GENERATION, Shared, lane};
use super::attr::{self, BLOCK_SIZE, NAME_LIFETIME, NAME_MAX};
use super::inodes::Node;
use super::listing::OpenDirectory;
use crate::tree::{Attributes, NodeKind, Place};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags,
    INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, PollEvents,
    PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

/// Answers every request; says so when there will be no more.
pub(super) struct Requests<F> {
    adapter: Adapter,
    ended: F,
}

impl<F: Fn() + Send + Sync + 'static> Requests<F> {
    /// Answers with this adapter and calls `ended` when the mount is gone.
    pub(super) fn new(adapter: Adapter, ended: F) -> Self {
        Self { adapter, ended }
    }

    /// The node that a request asks for.
    fn asked(&self, request: &Request, number: INodeNo) -> Result<Node, Errno> {
        self.adapter.0.admit(request)?;
        self.adapter.0.node(number.0)
    }
}

/// What the kernel may do for us, as far as it can.
const WANTED: [InitFlags; 5] = [
    // Listing gives attributes along, where they are asked for anyway.
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    // A slow lookup does not lock its directory.
    InitFlags::FUSE_PARALLEL_DIROPS,
    // A live file that was written over in place is read anew.
    InitFlags::FUSE_AUTO_INVAL_DATA,
    MAPS_WITHOUT_PAGES,
];

/// Files of which the kernel keeps no pages can be mapped all the same (Linux 6.6).
const MAPS_WITHOUT_PAGES: InitFlags = InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;

impl<F: Fn() + Send + Sync + 'static> Filesystem for Requests<F> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for flag in WANTED {
            let offered = config.add_capabilities(flag).is_ok();
            if !offered {
                tracing::info!("this kernel does not offer {flag:?}");
            }
            if flag == MAPS_WITHOUT_PAGES {
                let maps = &self.adapter.0.maps_without_pages;
                maps.store(offered, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn destroy(&mut self) {
        (self.ended)();
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let shared = &self.adapter.0;
        let place = match shared
            .admit(request)
            .and_then(|()| shared.child(parent.0, name))
        {
            Ok(place) => place,
            Err(errno) => return reply.error(errno),
        };
        let adapter = self.adapter.clone();
        self.adapter.answer_if_spare(lane(&place), move |shared| {
            if let Some(attributes) = shared.view.known(&place) {
                return entry(shared, place, &attributes, reply);
            }
            let is_small = shared.view.is_small(&place);
            adapter.answer_rendering(is_small, lane(&place), |shared| {
                match shared.view.attributes(&place) {
                    Ok(attributes) => entry(shared, place, &attributes, reply),
                    Err(error) => reply.error(Shared::failed(&place, &error)),
                }
            });
        });
    }

    fn forget(&self, _: &Request, number: INodeNo, count: u64) {
        self.adapter
            .answer(|shared| shared.inodes.forget(number.0, count));
    }

    fn getattr(&self, request: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let node = match self.asked(request, number) {
            Ok(node) => node,
            Err(errno) => return reply.error(errno),
        };
        let adapter = self.adapter.clone();
        let lane = lane(&node.identity.place);
        self.adapter.answer_if_spare(lane, move |shared| {
            if let Some(known) = shared.known(&node) {
                return attributes(shared, number.0, known, reply);
            }
            let is_small = shared.view.is_small(&node.identity.place);
            adapter.answer_rendering(is_small, lane, move |shared| {
                attributes(shared, number.0, shared.attributes(&node), reply);
            });
        });
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: ReplyData) {
        let node = match self.asked(request, number) {
            Ok(node) => node,
            Err(errno) => return reply.error(errno),
        };
        self.adapter
            .answer_if_spare(lane(&node.identity.place), move |shared| {
                let place = &node.identity.place;
                match shared.view.target(place) {
                    Ok(target) => reply.data(target.as_os_str().as_bytes()),
                    Err(error) => reply.error(Shared::failed(place, &error)),
                }
            });
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let node = match self.asked(request, number) {
            Ok(_) if flags.acc_mode() != OpenAccMode::O_RDONLY => return reply.error(Errno::EROFS),
            Ok(node) if node.identity.kind != NodeKind::File => return reply.error(Errno::EISDIR),
            // Rendering for an open that will be refused would be work for nothing.
            Ok(_) if self.adapter.0.files.full() => return reply.error(Errno::EMFILE),
            Ok(node) => node,
            Err(errno) => return reply.error(errno),
        };
        let adapter = self.adapter.clone();
        let lane = lane(&node.identity.place);
        self.adapter.answer_if_spare(lane, move |shared| {
            let version = node.identity.version;
            if let Some(content) = shared.view.at_hand(&node.identity.place, version) {
                return opened(shared, &node, shared.open(number.0, &node, content), reply);
            }
            let is_small = shared.view.is_small(&node.identity.place);
            adapter.answer_rendering(is_small, lane, move |shared| {
                let place = &node.identity.place;
                match shared.view.open(place, version) {
                    Ok(content) => {
                        opened(shared, &node, shared.open(number.0, &node, content), reply);
                    }
                    Err(error) => reply.error(Shared::failed(place, &error)),
                }
            });
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(file) = self.adapter.0.files.get(handle.0) else {
            return reply.error(Errno::EBADF);
        };
        self.adapter.answer_if_spare(file.lane, move |_| {
            match file.content.read(offset, size as usize) {
                Ok(bytes) => reply.data(&bytes),
                Err(error) => {
                    tracing::warn!("cannot read: {error}");
                    reply.error(attr::io_errno(&error));
                }
            }
        });
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.adapter.answer(|shared| {
            if let Some(file) = shared.files.close(handle.0) {
                shared.inodes.closed(file.number);
            }
            reply.ok();
        });
    }

    fn opendir(&self, request: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = self.asked(request, number).and_then(|node| {
            let directory = OpenDirectory::new(node.identity.place.clone());
            let directories = &self.adapter.0.directories;
            directories.open(directory).ok_or(Errno::EMFILE)
        });
        match opened {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let Some(directory) = self.adapter.0.directories.get(handle.0) else {
            return reply.error(Errno::EBADF);
        };
        self.adapter
            .answer_if_spare(lane(&directory.place), move |shared| {
                let names = match shared.names(&directory, offset) {
                    Ok(names) => names,
                    Err(errno) => return reply.error(errno),
                };
                let dots = dots(shared, &directory.place, offset);
                let full = dots.into_iter().any(|(next, name, number)| {
                    let kind = attr::file_type(NodeKind::Directory);
                    reply.add(INodeNo(number), next, kind, name)
                });
                let first = past_dots(offset);
                let ahead = directory.arrive(&names, first);
                let rest = names.iter().zip(DOTS + 1..).enumerate().skip(first);
                for (at, (entry, next)) in rest.take_while(|_| !full) {
                    let known = ahead.as_ref().and_then(|ahead| ahead.of(at));
                    let told = known.and_then(|known| shared.told(known));
                    let number = told.unwrap_or_else(|| {
                        shared.number(directory.place.join(&entry.name), entry.kind)
                    });
                    let kind = attr::file_type(entry.kind);
                    if reply.add(INodeNo(number), next, kind, &entry.name) {
                        break;
                    }
                }
                reply.ok();
            });
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let Some(directory) = self.adapter.0.directories.get(handle.0) else {
            return reply.error(Errno::EBADF);
        };
        self.adapter
            .answer_if_spare(lane(&directory.place), move |shared| {
                let names = match shared.names(&directory, offset) {
                    Ok(names) => names,
                    Err(errno) => return reply.error(errno),
                };
                let dots = dots(shared, &directory.place, offset);
                let full = dots.into_iter().any(|(next, name, number)| {
                    // The kernel looks at the number and the kind alone here, and does not count it as told.
                    let attributes = attr::unknown(NodeKind::Directory, 0);
                    let attr = shared.owner.attr(number, &attributes);
                    let never = Duration::ZERO;
                    reply.add(attr.ino, next, name, &never, &attr, GENERATION)
                });
                let first = past_dots(offset);
                let ahead = directory.arrive(&names, first);
                // Of what the kernel was told just now it needs no more than the names, and these it asks for by themselves when the
                // first answer says nothing of any.
                if offset == 0 && ahead.as_ref().is_some_and(|ahead| ahead.is_told()) {
                    return reply.ok();
                }
                let since = ahead
                    .as_ref()
                    .map_or_else(Instant::now, |ahead| ahead.since);
                let age = since.elapsed();
                let mut told = first;
                let mut found = Vec::new();
                let rest = names.iter().zip(DOTS + 1..).skip(first);
                for (entry, next) in rest.take_while(|_| !full) {
                    let known = ahead.as_ref().and_then(|ahead| ahead.of(told));
                    let listed = shared.list(&directory.place, entry, known);
                    let attr = listed.attr;
                    let lifetime = listed.lifetime.saturating_sub(age);
                    let name = &entry.name;
                    if reply.add(attr.ino, next, name, &lifetime, &attr, GENERATION) {
                        shared.inodes.forget(attr.ino.0, 1);
                        break;
                    }
                    told += 1;
                    found.push(listed.found);
                }
                reply.ok();
                let is_known = ahead.is_some_and(|ahead| ahead.of(told).is_some());
                directory.tell(&names, first, found, since);
                // Whoever only wants names reads the first of them so, and the others otherwise.
                if offset > 0 && told > first && told < names.len() && !is_known {
                    directory.look_ahead(&*shared.view, names, told, told - first);
                }
            });
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.adapter.answer(|shared| {
            let directory = shared.directories.close(handle.0);
            reply.ok();
            if let Some(directory) = directory {
                shared.closed(&directory);
            }
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        // Sums would have to render everything. One free block shows the mount in `df` and is never nearly full.
        let files = self.adapter.0.inodes.len() as u64;
        reply.statfs(1, 1, 1, files, 0, BLOCK_SIZE, NAME_MAX as u32, BLOCK_SIZE);
    }

    // Not offered: the kernel asks once and never again.

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: ReplyLseek) {
        reply.error(Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn poll(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: PollNotifier,
        _: PollEvents,
        _: PollFlags,
        reply: ReplyPoll,
    ) {
        reply.error(Errno::ENOSYS);
    }

    // Writes: the kernel refuses them by itself as long as nobody mounts this again as writable.

    fn setattr(
        &self,
        _: &Request,
        _: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.error(Errno::EROFS);
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EROFS);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EROFS);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::EROFS);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EROFS);
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::EROFS);
    }

    fn setxattr(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: &[u8],
        _: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EROFS);
    }

    fn removexattr(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }
}

/// `.` and `..` come first; an entry's offset is its number among all, counted from 1.
const DOTS: u64 = 2;

/// Those of `.` and `..` that stand after this offset: the offset behind it, its name, its inode.
fn dots(shared: &Shared, place: &Place, offset: u64) -> Vec<(u64, &'static str, u64)> {
    if offset >= DOTS {
        return Vec::new();
    }
    let (own, above) = shared.dots(place);
    let both = [(1, ".", own), (2, "..", above)];
    both.into_iter().skip(offset as usize).collect()
}

/// How many entries after `.` and `..` stand before this offset.
fn past_dots(offset: u64) -> usize {
    usize::try_from(offset.saturating_sub(DOTS)).unwrap_or(usize::MAX)
}

fn entry(shared: &Shared, place: Place, attributes: &Attributes, reply: ReplyEntry) {
    let attr = shared.look_up(place, attributes);
    reply.entry_with_ttls(
        &attr::lifetime(attributes),
        &NAME_LIFETIME,
        &attr,
        GENERATION,
    );
}

fn attributes(
    shared: &Shared,
    number: u64,
    attributes: Result<Attributes, Errno>,
    reply: ReplyAttr,
) {
    match attributes {
        Ok(attributes) => {
            shared.inodes.remember(number, attributes);
            let attr = shared.owner.attr(number, &attributes);
            reply.attr(&attr::lifetime(&attributes), &attr);
        }
        Err(errno) => reply.error(errno),
    }
}

/// The kernel keeps the pages of a versioned file; those of a live one are read anew at each open.
///
/// Of one that grows it keeps none where it can do without. A page that it read while the file was shorter is zero behind the
/// end, and a reader who comes to it just when the kernel learns of the new length is given the zeros.
fn opened(shared: &Shared, node: &Node, handle: Result<u64, Errno>, reply: ReplyOpen) {
    let flags = match node.attributes {
        Some(known) if attr::fixed(&known) => FopenFlags::FOPEN_KEEP_CACHE,
        Some(known) if attr::grows(&known) && shared.maps_without_pages.load(Ordering::Relaxed) => {
            FopenFlags::FOPEN_DIRECT_IO
        }
        _ => FopenFlags::empty(),
    };
    match handle {
        Ok(handle) => reply.opened(FileHandle(handle), flags),
        Err(errno) => reply.error(errno),
    }
}
