//! What can be wrong with a log, and what can stop a writer: each error says where and what was expected.

use std::io;
use std::path::{Path, PathBuf};

/// Why an operation on a framed log failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// No session can have this ID.
    #[error("`{id}` is no session ID: {why}")]
    InvalidId {
        /// What was given.
        id: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The session's ID makes a file name that the file system cannot hold.
    #[error("`{name}` is {} bytes long and a file name holds 255: take a shorter session ID", name.len())]
    NameTooLong {
        /// The name.
        name: String,
    },
    /// A text that must say something is blank.
    #[error("{}: {what} must not be blank", path.display())]
    Blank {
        /// The log.
        path: PathBuf,
        /// Which text.
        what: &'static str,
    },
    /// A text is longer than its length field can say.
    #[error("{}: {what} is longer than 4 GiB", path.display())]
    TooLong {
        /// The log.
        path: PathBuf,
        /// Which text.
        what: &'static str,
    },
    /// There is no such log.
    #[error("{}: there is no such session log", path.display())]
    Missing {
        /// Where it would be.
        path: PathBuf,
    },
    /// Creating would overwrite.
    #[error("{}: this session log is there already, and creating never overwrites", path.display())]
    Exists {
        /// Where it is.
        path: PathBuf,
    },
    /// It is no regular file.
    #[error("{}: a session log is a regular file and this is none", path.display())]
    NotRegular {
        /// What is there.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// An input error in the middle of a file.
    #[error("{}: cannot read at byte {offset}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// The reason.
        source: io::Error,
    },
    /// The log is damaged.
    #[error("{}: damaged at byte {offset}: {fault}", path.display())]
    Corrupt {
        /// The log.
        path: PathBuf,
        /// Where the frame begins that is wrong.
        offset: u64,
        /// What is wrong.
        fault: Fault,
    },
    /// An object that an event names is missing or damaged.
    #[error("{}: the object of the event at byte {offset} of its log {fault}", path.display())]
    Object {
        /// The object's file.
        path: PathBuf,
        /// Where the frame of the event begins in the log.
        offset: u64,
        /// What is wrong.
        fault: ObjectFault,
    },
    /// The log is sealed.
    #[error("{}: this session is sealed and takes no more events", path.display())]
    Sealed {
        /// The log.
        path: PathBuf,
    },
    /// An event of the role `pending-object` without an object.
    #[error("{}: an event of the role pending-object is made by attaching an object", path.display())]
    NeedsObject {
        /// The log.
        path: PathBuf,
    },
    /// There is no object at this position.
    #[error("{}: event {position} is no pending object", path.display())]
    NoObject {
        /// The log.
        path: PathBuf,
        /// The position that was asked for.
        position: u64,
    },
    /// The log was deleted or replaced since this handle opened it.
    #[error("{}: the session log was deleted or replaced since it was opened: open it again", path.display())]
    Gone {
        /// Where it was.
        path: PathBuf,
    },
    /// The log is shorter than what this handle has verified.
    #[error("{}: {length} bytes long, and {verified} were verified before: something else cut it; open it again", path.display())]
    Shorter {
        /// The log.
        path: PathBuf,
        /// Its length.
        length: u64,
        /// What was verified of it.
        verified: u64,
    },
    /// An earlier failure left the end of the log in a state that this handle does not know.
    #[error("{}: this handle writes no more, because after a failure the end of the log could not be restored ({why}): open it again", path.display())]
    Broken {
        /// The log.
        path: PathBuf,
        /// The failure.
        why: String,
    },
}

impl LogError {
    pub(super) fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        Self::Io {
            path: path.to_path_buf(),
            doing,
            source,
        }
    }

    /// Why, without the path.
    pub fn reason(&self) -> String {
        let text = self.to_string();
        let path = match self {
            Self::InvalidId { .. } | Self::NameTooLong { .. } => return text,
            Self::Blank { path, .. }
            | Self::TooLong { path, .. }
            | Self::Missing { path }
            | Self::Exists { path }
            | Self::NotRegular { path }
            | Self::Io { path, .. }
            | Self::Read { path, .. }
            | Self::Corrupt { path, .. }
            | Self::Object { path, .. }
            | Self::Sealed { path }
            | Self::NeedsObject { path }
            | Self::NoObject { path, .. }
            | Self::Gone { path }
            | Self::Shorter { path, .. }
            | Self::Broken { path, .. } => path,
        };
        let path = format!("{}: ", path.display());
        text.strip_prefix(&path).unwrap_or(&text).to_owned()
    }
}

/// What is wrong with a log at some byte of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It does not begin with the magic of a session log.
    #[error("a session log begins with `KSESSIONLOG` and a line break, and this does not")]
    Magic,
    /// Nothing, or nothing complete, follows the magic.
    #[error("the log has no complete header frame")]
    NoHeader,
    /// The first frame is no header.
    #[error("the first frame must be the header, and this is of kind {0}")]
    NotHeader(u8),
    /// A second header.
    #[error("a log has one header, and this is another")]
    SecondHeader,
    /// Something follows the footer.
    #[error("nothing may follow the footer, and a frame of kind {0} does")]
    AfterFooter(u8),
    /// No frame has this kind.
    #[error("a frame is of kind 1, 2 or 3, and this one of kind {0}")]
    Kind(u8),
    /// The frame would end beyond what 64 bits can say.
    #[error("the frame declares {0} bytes, more than a file can hold")]
    Length(u64),
    /// The length field is damaged: what follows it is no unfinished frame.
    #[error(
        "the frame declares more bytes than the file has, and what follows is no unfinished frame: a complete one stands at byte {0}"
    )]
    LengthBeforeFrame(u64),
    /// The length field is damaged: the rest of the file is the frame's payload.
    #[error(
        "the frame declares more bytes than the file has, and those that are there match its checksum"
    )]
    LengthOfLast,
    /// The checksum does not match.
    #[error("the payload does not match the frame's checksum")]
    Checksum,
    /// The payload is not what its kind demands.
    #[error("the payload is no {kind}: {why}")]
    Payload {
        /// `header` or `event`.
        kind: &'static str,
        /// What the parser says.
        why: String,
    },
    /// A footer with a payload.
    #[error("a footer has no payload, and this has {0} bytes")]
    FooterPayload(u64),
    /// Another version of the format.
    #[error("the format is version 0.2.1, and this is `{0}`")]
    Version(String),
    /// The header's ID is none.
    #[error("the header's session ID `{0}` is none")]
    HeaderId(String),
    /// The header's ID is not the file's.
    #[error("the file is of session `{file}`, and the header says `{header}`")]
    Identity {
        /// What the file's name says.
        file: String,
        /// What the header says.
        header: String,
    },
    /// The header says no time of creation.
    #[error("the header's createdAt is blank")]
    CreatedAt,
}

/// What is wrong with the file of a pending object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectFault {
    /// It is not there.
    #[error("is missing")]
    Missing,
    /// It is no regular file.
    #[error("is no regular file")]
    NotRegular,
    /// It cannot be read.
    #[error("cannot be read at byte {offset}: {source}")]
    Read {
        /// Where.
        offset: u64,
        /// The reason.
        source: io::Error,
    },
    /// It does not begin with the magic.
    #[error("does not begin with `KSPENDING01` and a line break")]
    Magic,
    /// It ends inside its own header.
    #[error("ends after {0} bytes, inside its header")]
    Cut(u64),
    /// It is not as long as it says.
    #[error("declares {declared} bytes and is {actual} bytes long")]
    Length {
        /// What the header adds up to.
        declared: u128,
        /// What the file has.
        actual: u64,
    },
    /// Another version of the format.
    #[error("is of format version `{0}` and not 0.2.1")]
    Version(String),
    /// A text of its header is not UTF-8.
    #[error("has a {0} that is not UTF-8")]
    NotText(&'static str),
    /// A text of its header is blank.
    #[error("has a {0} that is blank")]
    Blank(&'static str),
    /// The checksum does not match.
    #[error("does not match its checksum")]
    Checksum,
}
