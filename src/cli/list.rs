//! `sessionfs list`: the sessions, newest first.

use super::sources::SourceArgs;
use super::{Failure, Paint, output};
use crate::cache::Table;
use crate::session::look::Look;
use crate::session::summary::Summary;
use crate::transcript::display;
use jiff::{SignedDuration, Timestamp, civil};
use rayon::prelude::*;
use serde::{Serialize, Serializer};
use std::fmt::Write as _;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const EXAMPLES: &str = "\
Examples:
  sessionfs list
  sessionfs list --project parser --since 7d
  sessionfs list --source ./sessionfs-demo
  sessionfs list --json | jq -r '.[] | select(.agents > 0) | .id'";

/// The command's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    sources: SourceArgs,
    /// Only sessions of projects whose name holds this text, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    project: Option<String>,
    /// Only sessions that went on at or after this: 7d, 12h, 30m, 2026-11-24 or 2026-11-24T15:00:00Z (UTC)
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Timestamp>,
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
    /// Last time that its end shows.
    #[serde(serialize_with = "as_text")]
    ended: Option<Timestamp>,
    /// When one of its files was last written.
    #[serde(serialize_with = "as_text")]
    changed: Option<Timestamp>,
    project: Option<String>,
    title: Option<String>,
    /// Whether only the two ends of the main thread were looked at, so that there may be a better title.
    title_from_a_bounded_look: bool,
    /// Entries of its record of messages.
    record_entries: u64,
    agents: u64,
    /// Whether only the whole files would tell how many there are.
    agents_from_a_bounded_look: bool,
    bytes: u64,
}

impl Row {
    fn of(id: &str, summary: Summary) -> Self {
        // What a participant wrote, or a harness after him, is shown on a terminal in its display form only.
        let shown = |text: Option<String>| text.map(|text| display::line(&text));
        Self {
            id: id.to_owned(),
            started: summary.started,
            ended: summary.ended,
            changed: summary.changed.and_then(|at| at.try_into().ok()),
            project: shown(summary.project),
            title_from_a_bounded_look: summary.title.is_some() && summary.title_is_bounded,
            title: shown(summary.title),
            record_entries: summary.entries,
            agents: summary.agents,
            agents_from_a_bounded_look: summary.agents_is_bounded,
            bytes: summary.bytes,
        }
    }

    fn when(&self) -> Option<Timestamp> {
        self.started.or(self.changed)
    }

    fn is_wanted(&self, args: &Args) -> bool {
        let holds = |text: &String| {
            let project = self.project.as_ref().map(|project| project.to_lowercase());
            project.is_some_and(|project| project.contains(&text.to_lowercase()))
        };
        let last = self.ended.or(self.changed);
        args.project.as_ref().is_none_or(holds)
            && args.since.is_none_or(|since| last >= Some(since))
    }
}

/// Prints the sessions.
pub(super) fn run(args: &Args, paint: Paint) -> Result<(), Failure> {
    let opened = args.sources.open()?;
    let sessions = opened.sessions();
    let looks = opened.cache().map(|cache| cache.table(Look::TABLE));
    let looks = looks.unwrap_or_else(Table::none);
    let recalled = looks.recall();
    let row = |session| {
        let look = Look::at_or_recalled(session, &looks, &recalled);
        Row::of(&session.id, Summary::of(session, look))
    };
    let mut rows: Vec<Row> = sessions.par_iter().map(row).collect();
    let ids = short_ids(&rows);
    let mut rows: Vec<(Row, String)> = rows.drain(..).zip(ids).collect();
    rows.retain(|(row, _)| row.is_wanted(args));
    rows.sort_by(|(a, _), (b, _)| b.when().cmp(&a.when()).then_with(|| a.id.cmp(&b.id)));
    if rows.is_empty() && !sessions.is_empty() {
        tracing::warn!("none of the {} sessions here is such a one", sessions.len());
    }
    let text = if args.json {
        let rows: Vec<&Row> = rows.iter().map(|(row, _)| row).collect();
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
    looks.write(|id| sessions.binary_search_by(|s| s.id.as_str().cmp(id)).is_ok());
    match opened.unread() {
        0 => Ok(()),
        unread => Err(Failure::new(format!(
            "{unread} of the folders and files could not be read; sessions may be missing from the list"
        ))
        .hint("each is named above, with the reason")),
    }
}

/// A time that a person names: so long ago, a day, or an instant.
fn since(text: &str) -> Result<Timestamp, String> {
    since_at(text, Timestamp::now())
}

fn since_at(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    if let Ok(day) = text.parse::<civil::Date>() {
        let midnight = day.to_datetime(civil::Time::midnight());
        let at = jiff::tz::TimeZone::UTC.to_timestamp(midnight);
        return at.map_err(|error| error.to_string());
    }
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let hours = |n: i64, hours: i64| n.checked_mul(hours).map(SignedDuration::from_hours);
    let ago = digits.parse::<i64>().ok().filter(|n| *n >= 0);
    let ago = ago.and_then(|n| match &text[digits.len()..] {
        "d" => hours(n, 24).filter(|_| n < 1 << 30),
        "w" => hours(n, 24 * 7).filter(|_| n < 1 << 30),
        "h" => hours(n, 1).filter(|_| n < 1 << 30),
        "m" => Some(SignedDuration::from_secs(n.checked_mul(60)?)),
        _ => None,
    });
    ago.and_then(|ago| now.checked_sub(ago).ok())
        .ok_or_else(|| {
            "give 7d, 12h or 30m, a day as 2026-11-24, or a time as 2026-11-24T15:00:00Z".to_owned()
        })
}

/// The rows as aligned columns. The title comes last and is cut where the terminal ends; without a terminal nothing is cut.
/// Where that would leave less of it than tells sessions apart, the columns that tell least are left out.
fn table(rows: &[(Row, String)], width: Option<usize>, paint: Paint) -> String {
    let mut cells: Vec<[String; 6]> =
        vec![["ID", "STARTED (UTC)", "PROJECT", "AGENTS", "SIZE", "TITLE"].map(str::to_owned)];
    for (row, id) in rows {
        cells.push([
            id.clone(),
            match (row.started, row.changed) {
                (Some(started), _) => minute(started),
                (None, Some(changed)) => format!("{} changed", minute(changed)),
                (None, None) => "-".to_owned(),
            },
            clip(row.project.as_deref().unwrap_or("-"), MOST_PROJECT),
            agents(row),
            size(row.bytes),
            title(row),
        ]);
    }
    let widest = |column: usize| {
        let widths = cells.iter().map(|row| row[column].width());
        widths.max().unwrap_or_default()
    };
    let widths = [0, 1, 2, 3, 4].map(widest);
    let mut columns = vec![0, 1, 2, 3, 4];
    let before = |columns: &[usize]| columns.iter().map(|&c| widths[c] + 2).sum::<usize>();
    let useful = widest(TITLE).min(USEFUL_TITLE);
    for least in LEAST_TELLING {
        if width.is_some_and(|width| before(&columns) + useful > width) {
            columns.retain(|&column| column != least);
        }
    }
    let rest = width.map_or(usize::MAX, |width| {
        width.saturating_sub(before(&columns)).max(LEAST_TITLE)
    });
    let mut text = String::new();
    for (number, row) in cells.iter().enumerate() {
        let mut line = String::new();
        for &column in &columns {
            let cell = &row[column];
            let space = " ".repeat(widths[column] - cell.width());
            let right = column == AGENTS || column == SIZE;
            let _ = if right {
                write!(line, "{space}{cell}  ")
            } else {
                write!(line, "{cell}{space}  ")
            };
        }
        line += &clip(&row[TITLE], rest);
        let line = clip(line.trim_end(), width.unwrap_or(usize::MAX));
        let line = line.as_str();
        text += &if number == 0 {
            paint.bold(line)
        } else {
            line.to_owned()
        };
        text.push('\n');
    }
    text
}

const PROJECT: usize = 2;
const AGENTS: usize = 3;
const SIZE: usize = 4;
const TITLE: usize = 5;

/// The columns that a narrow terminal goes without, the first one first.
const LEAST_TELLING: [usize; 3] = [SIZE, AGENTS, PROJECT];

/// Columns that a title has before other cells have theirs.
const USEFUL_TITLE: usize = 24;

const MOST_PROJECT: usize = 24;
const LEAST_TITLE: usize = 12;

/// How many agents, marked where a look at the whole may find another number.
fn agents(row: &Row) -> String {
    let mark = if row.agents_from_a_bounded_look {
        "~"
    } else {
        ""
    };
    format!("{mark}{}", row.agents)
}

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
            ended: None,
            changed: None,
            project: None,
            title: Some(title.to_owned()),
            title_from_a_bounded_look: false,
            agents: 0,
            record_entries: 0,
            agents_from_a_bounded_look: false,
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
        let rows: Vec<(Row, String)> = rows.map(|row| (row, "aaaaaaaa".to_owned())).into();
        for width in [80, 40] {
            let text = table(
                &rows,
                Some(width),
                Paint::new(clap::ColorChoice::Never, true),
            );
            for line in text.lines() {
                assert!(line.width() <= width, "{line}");
            }
        }
        let all = table(&rows, None, Paint::new(clap::ColorChoice::Never, false));
        assert!(all.contains(&"x".repeat(200)));
    }

    #[test]
    fn a_narrow_terminal_shows_the_title_before_what_tells_less() {
        let head = |title: &str, width: usize| {
            let row = Row {
                started: Some("2026-11-24T09:15:00Z".parse().unwrap()),
                project: Some("parser".to_owned()),
                ..some("aaaaaaaa-1", title)
            };
            let rows = [(row, "aaaaaaaa".to_owned())];
            let paint = Paint::new(clap::ColorChoice::Never, true);
            let text = table(&rows, Some(width), paint);
            let head = text.lines().next().unwrap();
            let row = text.lines().nth(1).unwrap();
            assert!(row.width() <= width, "{row}");
            let shown = row.matches('x').count();
            (
                head.split_whitespace()
                    .skip(3)
                    .collect::<Vec<_>>()
                    .join(" "),
                shown,
            )
        };
        let long = "x".repeat(99);
        let all = "PROJECT AGENTS SIZE TITLE".to_owned();
        // PROJECT takes 9 columns, AGENTS 8, SIZE 9, and the ellipsis one of the title's.
        assert_eq!(head(&long, 80), (all.clone(), 25));
        assert_eq!(head(&long, 77), ("PROJECT AGENTS TITLE".to_owned(), 31));
        assert_eq!(head(&long, 60), ("TITLE".to_owned(), 31));
        assert_eq!(head("xxx", 60), (all, 3));
    }

    #[test]
    fn since_is_so_long_ago_or_a_day_or_a_time() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        for (text, at) in [
            ("7d", "2026-11-23T12:00:00Z"),
            ("2w", "2026-11-16T12:00:00Z"),
            ("36h", "2026-11-29T00:00:00Z"),
            ("30m", "2026-11-30T11:30:00Z"),
            ("2026-11-24", "2026-11-24T00:00:00Z"),
            ("2026-11-24T15:00:00+01:00", "2026-11-24T14:00:00Z"),
        ] {
            assert_eq!(since_at(text, now).unwrap().to_string(), at, "{text}");
        }
        for wrong in [
            "",
            "d",
            "-1d",
            "7",
            "7y",
            "99999999999d",
            "9223372036854775807m",
            "yesterday",
        ] {
            assert!(since_at(wrong, now).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(
            [size(0), size(1023), size(1536), size(5 << 30)],
            ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]
        );
    }
}
