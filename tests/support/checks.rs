//! What must hold of every document, whatever the session holds.

use crate::any_session::{Expected, Fence, Made};
use crate::markdown::{Parsed, Part, parse};
use pulldown_cmark::Options;
use sessionfs::artefact::{Document, Style};
use sessionfs::session::{MarkerKind, Role, Session};
use sessionfs::transcript::Stamp;

/// Everything outside the fences.
pub(crate) fn outside(parsed: &Parsed) -> String {
    let mut words = parsed.spans.join("\n");
    for part in &parsed.parts {
        words.push('\n');
        match part {
            Part::Heading(_, text)
            | Part::Paragraph(text)
            | Part::Quote(text)
            | Part::Item(text) => words.push_str(text),
            Part::Row(cells) => words.push_str(&cells.join("\n")),
            Part::Fence => {}
        }
    }
    words
}

pub(crate) fn check_no_path(words: &str) {
    for secret in ["marker-root", "secret-home"] {
        assert!(!words.contains(secret), "{secret} in {words}");
    }
}

/// The structure of a document without what may differ between two sessions of the same structure: numbers, and what is counted
/// of how the values are shown.
pub(crate) fn skeleton(parsed: &Parsed) -> Vec<Part> {
    let counted = [
        "blocks cut",
        "bytes not shown",
        "characters shown",
        "places shown",
        "CR LF pairs",
        "Cut here: ",
    ];
    let mut parts = Vec::new();
    for part in &parsed.parts {
        match part {
            Part::Item(words) | Part::Paragraph(words)
                if counted.iter().any(|start| words.starts_with(start)) => {}
            Part::Paragraph(words) => {
                let words = words.split(", SHA-256").next().unwrap();
                parts.push(Part::Paragraph(
                    words.replace(|c: char| c.is_ascii_digit(), ""),
                ));
            }
            other => parts.push(other.clone()),
        }
    }
    parts
}

/// The threads in the order of the document.
pub(crate) fn order(session: &Session) -> (Vec<usize>, Vec<usize>, Vec<usize>, Vec<usize>) {
    let threads = |wanted: &dyn Fn(&Role) -> bool| {
        (0..session.threads.len())
            .filter(|&index| wanted(&session.threads[index].role))
            .collect::<Vec<_>>()
    };
    let is_placed = |role: &Role| matches!(role, Role::Agent(agent) if agent.depth.is_some() && !agent.runs.is_empty());
    (
        threads(&|role| matches!(role, Role::Main)),
        threads(&is_placed),
        threads(&|role| matches!(role, Role::Agent(_)) && !is_placed(role)),
        threads(&|role| matches!(role, Role::Service(_))),
    )
}

pub(crate) fn check_headings(session: &Session, parsed: &Parsed, style: Style) {
    let (main, placed, unplaced, service) = order(session);
    let mut expected: Vec<String> = [
        "# Session ▢",
        "## How to read this document",
        "## Completeness",
        "## Timeline",
        "## Main thread",
    ]
    .map(str::to_owned)
    .to_vec();
    let threads = |heading: &str, indexes: &[usize], expected: &mut Vec<String>| {
        for &index in indexes {
            if !heading.is_empty() {
                expected.push(heading.to_owned());
            }
            for (number, turn) in session.threads[index].turns.iter().enumerate() {
                let at = match turn.at {
                    Stamp::At(at) => format!("{at:.3}"),
                    Stamp::Missing => "no time recorded".to_owned(),
                    Stamp::Unreadable(_) => "unreadable time ▢".to_owned(),
                };
                let model = if turn.model.is_some() { " · ▢" } else { "" };
                expected.push(format!(
                    "### Turn {} · {} · {at}{model}",
                    number + 1,
                    turn.kind.name()
                ));
            }
        }
    };
    threads("", &main, &mut expected);
    threads("## Agent ▢", &placed, &mut expected);
    if !unplaced.is_empty() {
        expected.push("## Unattributed sub-agents".to_owned());
        threads("## Agent ▢", &unplaced, &mut expected);
    }
    if !service.is_empty() {
        expected.push("## Service threads".to_owned());
        threads("## Service thread ▢", &service, &mut expected);
    }
    let mut headings = parsed.headings();
    if style == Style::Spine {
        // The reduced form leaves out turns, and shows no other.
        let is_turn = |heading: &&String| heading.starts_with("### Turn ");
        let turns: Vec<_> = headings.iter().filter(is_turn).cloned().collect();
        let mut all = expected.iter().filter(is_turn);
        assert!(
            turns.iter().all(|turn| all.any(|known| known == turn)),
            "{turns:?}"
        );
        headings.retain(|heading| !heading.starts_with("### Turn "));
        expected.retain(|heading| !heading.starts_with("### Turn "));
    }
    assert_eq!(headings, expected);
}

pub(crate) fn check_markers(session: &Session, parsed: &Parsed) {
    let mut quotes: Vec<&str> = parsed
        .parts
        .iter()
        .filter_map(|part| {
            if let Part::Quote(words) = part {
                Some(words.split([' ', ';']).next().unwrap())
            } else {
                None
            }
        })
        .collect();
    let mut markers: Vec<&str> = session
        .threads
        .iter()
        .flat_map(|thread| &thread.markers)
        .map(|marker| match marker.what {
            MarkerKind::Spawned(_) => "[SPAWNED",
            MarkerKind::Joined(_) => "[JOINED",
            MarkerKind::Compacted { .. } => "[COMPACTED",
            MarkerKind::Rewound { .. } => "[REWOUND",
        })
        .collect();
    quotes.sort_unstable();
    markers.sort_unstable();
    assert_eq!(quotes, markers);
}

pub(crate) fn check_table(session: &Session, parsed: &Parsed) {
    let agents = session
        .threads
        .iter()
        .filter(|thread| matches!(thread.role, Role::Agent(_)))
        .count();
    let rows: Vec<_> = parsed
        .parts
        .iter()
        .filter_map(|part| {
            if let Part::Row(cells) = part {
                Some(cells)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(rows.len(), if agents == 0 { 0 } else { agents + 1 });
    for cells in rows {
        assert_eq!(cells.len(), 10);
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{cells:?}");
    }
}

/// Every code span holds a safe value.
pub(crate) fn check_spans(parsed: &Parsed) {
    for span in &parsed.spans {
        assert!((1..=128).contains(&span.chars().count()), "{span:?}");
        assert!(
            !span.starts_with(' ') && !span.ends_with(' ') && !span.contains("  "),
            "{span:?}"
        );
        assert!(
            !span.contains(['`', '|']) && !span.replace("\\u{", "").contains('\\'),
            "{span:?}"
        );
        assert!(
            span.chars()
                .all(|c| c == ' ' || !(c.is_whitespace() || c.is_control())),
            "{span:?}"
        );
    }
}

pub(crate) fn fences(made: &Made, style: Style) -> Vec<&Fence> {
    let (main, placed, unplaced, service) = order(&made.session);
    let threads = main.iter().chain(&placed).chain(&unplaced).chain(&service);
    let kept = |expected: &&Expected| style != Style::Spine || expected.in_spine;
    let turns = threads
        .flat_map(|&thread| &made.fences[thread])
        .filter(kept);
    made.notes
        .iter()
        .chain(turns.map(|expected| &expected.fence))
        .collect()
}

/// Each fence gives its text back, cut where it is long and with the right note.
pub(crate) fn check_fences(expected: &[&Fence], parsed: &Parsed, style: Style) {
    assert_eq!(parsed.fences.len(), expected.len());
    let mut notes = Vec::new();
    let mut last_was_fence = false;
    for part in &parsed.parts {
        if last_was_fence {
            notes.push(match part {
                Part::Paragraph(words) => words.strip_prefix("Cut here: ").map(|words| {
                    words
                        .trim_end_matches(" bytes more are not shown.")
                        .parse::<usize>()
                        .unwrap()
                }),
                _ => None,
            });
        }
        last_was_fence = *part == Part::Fence;
    }
    notes.resize(expected.len(), None);
    let bare = |text: &str| text.replace([' ', '\n', '\t'], "");
    for ((fence, shown), note) in expected.iter().zip(&parsed.fences).zip(notes) {
        match (fence, note) {
            (Fence::Text(text), None) => assert_eq!(shown, text),
            (Fence::Json(json), None) => assert_eq!(bare(shown), bare(json)),
            (_, Some(_)) if style != Style::Cut(Some(16)) => panic!("{shown:?} is cut"),
            (Fence::Text(text), Some(more)) => {
                assert!(
                    text.starts_with(shown.as_str()) && shown.len() <= 16,
                    "{shown:?} of {text:?}"
                );
                assert_eq!(shown.len() + more, text.len());
            }
            (Fence::Json(json), Some(_)) => assert!(
                bare(json).starts_with(&bare(shown)),
                "{shown:?} of {json:?}"
            ),
        }
    }
}

/// The sections are the turns' text, from heading to heading.
pub(crate) fn check_sections(session: &Session, document: &Document, style: Style) {
    let turns: usize = session
        .threads
        .iter()
        .map(|thread| thread.turns.len())
        .sum();
    assert!(style == Style::Spine || document.sections.len() == turns);
    let whole = document.to_vec();
    for section in &document.sections {
        let (start, end) = (section.range.start as usize, section.range.end as usize);
        let (bytes, rest) = (&whole[start..end], &whole[end..]);
        assert!(bytes.starts_with(format!("### Turn {} · ", section.turn + 1).as_bytes()));
        assert!(rest.is_empty() || rest.starts_with(b"### Turn ") || rest.starts_with(b"## "));
        let parsed = parse(std::str::from_utf8(bytes).unwrap(), Options::ENABLE_TABLES);
        assert_eq!(parsed.headings().len(), 1, "one heading a section");
    }
}

/// A person may print the document to a terminal.
pub(crate) fn check_characters(markdown: &str) {
    for c in markdown.chars() {
        let steers = c.is_control() && c != '\n' && c != '\t';
        let reorders = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        assert!(
            !steers && !reorders && !('\u{e0000}'..='\u{e007f}').contains(&c),
            "{c:?}"
        );
    }
}
