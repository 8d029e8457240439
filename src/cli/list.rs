//! `sessionfs list`: the sessions, newest first.

mod glance;

use self::glance::{Glance, glance};
use super::sources::SourceArgs;
use super::{Failure, Paint, output};
use crate::store::{FileRole, SessionFiles, SourceFile};
use crate::transcript::display;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use std::fmt::Write as _;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const EXAMPLES: &str = "\
Examples:
  sessionfs list
  sessionfs list --source ./sessionfs-demo
  sessionfs list --json | jq -r '.[] | select(.agents > 0) | .id'";

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    sources: SourceArgs,
    /// Print a JSON array instead of a table
    #[arg(long)]
    json: bool,
}

/// One session, as its files' names and a bounded look at one of them tell.
#[derive(Debug, Serialize)]
struct Row {
    id: String,
    /// First time that the main thread's head shows; none where it shows none.
    #[serde(serialize_with = "as_text")]
    started: Option<Timestamp>,
    /// When one of its files was last written.
    #[serde(serialize_with = "as_text")]
    changed: Option<Timestamp>,
    project: Option<String>,
    title: Option<String>,
    /// Whether only the two ends of the main thread were looked at, so that there may be a better title.
    title_from_a_bounded_look: bool,
    agents: usize,
    bytes: u64,
}

impl Row {
    fn when(&self) -> Option<Timestamp> {
        self.started.or(self.changed)
    }
}

/// Prints the sessions.
pub(super) fn run(args: &Args, paint: Paint) -> Result<(), Failure> {
    let opened = args.sources.open()?;
    let mut rows: Vec<Row> = opened.sessions().iter().map(row).collect();
    rows.sort_by(|a, b| b.when().cmp(&a.when()).then_with(|| a.id.cmp(&b.id)));
    let text = if args.json {
        let mut json = serde_json::to_string_pretty(&rows)
            .map_err(|error| Failure::new("cannot write the list as JSON").because(error))?;
        json.push('\n');
        json
    } else {
        let width = terminal_size::terminal_size_of(std::io::stdout())
            .map(|(width, _)| usize::from(width.0));
        table(&rows, width, paint)
    };
    output::print(text.as_bytes())?;
    match opened.unread() {
        0 => Ok(()),
        unread => Err(Failure::new(format!(
            "{unread} of the folders and files could not be read; sessions may be missing from the list"
        ))
        .hint("each is named above, with the reason")),
    }
}

fn row(session: &SessionFiles) -> Row {
    let files = || {
        session
            .fragments
            .iter()
            .flat_map(|fragment| &fragment.files)
    };
    let mut agents: Vec<&str> = files()
        .filter_map(|file| match &file.role {
            FileRole::Agent(id) => Some(id.as_str()),
            _ => None,
        })
        .collect();
    agents.sort_unstable();
    agents.dedup();
    let glance = look(files());
    let newest = files().map(|file| file.fingerprint.mtime_ns).max();
    // What a participant wrote, or a harness after him, is shown on a terminal in its display form only.
    let shown = |text: Option<String>| text.map(|text| display::line(&text));
    Row {
        id: session.id.clone(),
        started: glance.started,
        changed: newest.and_then(|newest| Timestamp::from_nanosecond(newest.into()).ok()),
        project: shown(glance.project),
        title: shown(glance.title),
        title_from_a_bounded_look: !glance.whole,
        agents: agents.len(),
        bytes: files().map(|file| file.fingerprint.size).sum(),
    }
}

/// Looks at the main thread and, where that tells no time, at an agent's, which has no title of the session.
fn look<'a>(files: impl Iterator<Item = &'a SourceFile>) -> Glance {
    let mut seen = Glance::default();
    let mut threads: Vec<&SourceFile> = files
        .filter(|file| matches!(file.role, FileRole::Main | FileRole::Agent(_)))
        .collect();
    threads.sort_by_key(|file| file.role != FileRole::Main);
    for file in threads.into_iter().take(MOST_LOOKS) {
        match glance(file) {
            Ok(main) if file.role == FileRole::Main => seen = main,
            Ok(agent) => {
                seen.started = agent.started;
                seen.project = seen.project.or(agent.project);
            }
            Err(error) => tracing::warn!("{}", display::line(&error.to_string())),
        }
        if seen.started.is_some() {
            break;
        }
    }
    seen
}

/// Files of one session that are looked at for its row.
const MOST_LOOKS: usize = 4;

/// The rows as aligned columns. The title comes last and is cut where the terminal ends; without a terminal nothing is cut.
fn table(rows: &[Row], width: Option<usize>, paint: Paint) -> String {
    let ids = short_ids(rows);
    let mut cells: Vec<[String; 6]> =
        vec![["ID", "STARTED (UTC)", "PROJECT", "AGENTS", "SIZE", "TITLE"].map(str::to_owned)];
    for (row, id) in rows.iter().zip(ids) {
        cells.push([
            id,
            match (row.started, row.changed) {
                (Some(started), _) => minute(started),
                (None, Some(changed)) => format!("{} changed", minute(changed)),
                (None, None) => "-".to_owned(),
            },
            clip(row.project.as_deref().unwrap_or("-"), MOST_PROJECT),
            row.agents.to_string(),
            size(row.bytes),
            title(row),
        ]);
    }
    let widths: Vec<usize> = (0..5)
        .map(|column| {
            cells
                .iter()
                .map(|row| row[column].width())
                .max()
                .unwrap_or_default()
        })
        .collect();
    let before: usize = widths.iter().map(|width| width + 2).sum();
    let rest = width.map_or(usize::MAX, |width| {
        width.saturating_sub(before).max(LEAST_TITLE)
    });
    let mut text = String::new();
    for (number, row) in cells.iter().enumerate() {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let space = " ".repeat(width - cell.width());
            let right = column == 3 || column == 4;
            let _ = if right {
                write!(line, "{space}{cell}  ")
            } else {
                write!(line, "{cell}{space}  ")
            };
        }
        line += &clip(&row[5], rest);
        let line = line.trim_end();
        text += &if number == 0 {
            paint.bold(line)
        } else {
            line.to_owned()
        };
        text.push('\n');
    }
    text
}

const MOST_PROJECT: usize = 24;
const LEAST_TITLE: usize = 12;

/// The title, marked where there may be a better one.
fn title(row: &Row) -> String {
    match &row.title {
        Some(title) if row.title_from_a_bounded_look => format!("~{title}"),
        Some(title) => title.clone(),
        None => String::new(),
    }
}

/// For each row the shortest beginning of its ID, of eight characters at least, that no other row's has.
fn short_ids(rows: &[Row]) -> Vec<String> {
    let mut sorted: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    sorted.sort_unstable();
    rows.iter()
        .map(|row| {
            let at = sorted.partition_point(|id| *id < row.id.as_str());
            let neighbours = [at.checked_sub(1), Some(at + 1)];
            let shared = neighbours
                .into_iter()
                .flatten()
                .filter_map(|i| sorted.get(i));
            let shared = shared
                .map(|other| common(&row.id, other))
                .max()
                .unwrap_or_default();
            row.id.chars().take((shared + 1).max(8)).collect()
        })
        .collect()
}

/// How many characters two texts begin with alike.
fn common(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

/// ISO 8601 in UTC with milliseconds. serde hands over a reference to the whole field.
#[allow(clippy::ref_option)]
fn as_text<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(|at| format!("{at:.3}")).serialize(serializer)
}

fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M").to_string()
}

fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB"] {
        if value < 1024.0 {
            return if unit == "B" {
                format!("{bytes} B")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} GiB")
}

/// The text if it takes no more than so many columns, else as much of it as leaves room for an ellipsis.
fn clip(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut taken = 0;
    let fits = |c: &char| {
        taken += c.width().unwrap_or_default();
        taken < columns
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(id: &str, title: &str) -> Row {
        Row {
            id: id.to_owned(),
            started: None,
            changed: None,
            project: None,
            title: Some(title.to_owned()),
            title_from_a_bounded_look: false,
            agents: 0,
            bytes: 1536,
        }
    }

    #[test]
    fn a_short_id_is_long_enough_to_be_one() {
        let rows = [
            some("aaaaaaaaaa1", ""),
            some("aaaaaaaaaa2", ""),
            some("b", ""),
        ];
        assert_eq!(short_ids(&rows), ["aaaaaaaaaa1", "aaaaaaaaaa2", "b"]);
        let rows = [some("aaaaaaaa-1", ""), some("bbbbbbbb-1", "")];
        assert_eq!(short_ids(&rows), ["aaaaaaaa", "bbbbbbbb"]);
    }

    #[test]
    fn the_table_fits_the_terminal_whatever_the_title() {
        let rows = [
            some("aaaaaaaa-1", &"字".repeat(80)),
            some("bbbbbbbb-1", &"x".repeat(200)),
        ];
        for line in table(&rows, Some(80), Paint::new(clap::ColorChoice::Never, true)).lines() {
            assert!(line.width() <= 80, "{line}");
        }
        let all = table(&rows, None, Paint::new(clap::ColorChoice::Never, false));
        assert!(all.contains(&"x".repeat(200)));
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(
            [size(0), size(1023), size(1536), size(5 << 30)],
            ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]
        );
    }
}
