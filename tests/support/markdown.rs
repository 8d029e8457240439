//! A document as an independent Markdown parser sees it.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A document's structure, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Level and words. A code span in words is shown as `▢`, so that two documents with different values compare equal.
    Heading(usize, String),
    Paragraph(String),
    Quote(String),
    Item(String),
    /// The cells of a table row.
    Row(Vec<String>),
    Fence,
}

/// What a parser found.
#[derive(Default)]
pub(crate) struct Parsed {
    pub(crate) parts: Vec<Part>,
    /// The texts of the fences, each without the line break that the document adds.
    pub(crate) fences: Vec<String>,
    /// The contents of the code spans.
    pub(crate) spans: Vec<String>,
}

/// What a document says outside its fences.
impl Parsed {
    pub(crate) fn headings(&self) -> Vec<String> {
        let heading = |part: &Part| match part {
            Part::Heading(level, words) => Some(format!("{} {words}", "#".repeat(*level))),
            _ => None,
        };
        self.parts.iter().filter_map(heading).collect()
    }
}

/// Parses a document, and fails on everything that a document of ours never has outside a fence: emphasis, links, pictures,
/// HTML, rules, numbered lists, a second line in a paragraph.
pub(crate) fn parse(document: &str, options: Options) -> Parsed {
    let mut parsed = Parsed::default();
    let mut words = String::new();
    let mut cells = Vec::new();
    let (mut quoted, mut fenced) = (false, false);
    for event in Parser::new_ext(document, options) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                assert_eq!(
                    kind,
                    CodeBlockKind::Fenced("".into()),
                    "a fence has no info string"
                );
                fenced = true;
            }
            Event::Start(Tag::BlockQuote(None)) => quoted = true,
            Event::Start(
                Tag::Heading { id: None, .. }
                | Tag::Paragraph
                | Tag::List(None)
                | Tag::Item
                | Tag::TableCell,
            ) => words.clear(),
            Event::Start(Tag::Table(_) | Tag::TableHead | Tag::TableRow) => cells.clear(),
            Event::Text(text) => words.push_str(&text),
            Event::Code(code) => {
                assert!(!fenced);
                words.push('▢');
                parsed.spans.push(code.into_string());
            }
            Event::End(TagEnd::CodeBlock) => {
                let text = std::mem::take(&mut words);
                parsed.fences.push(
                    text.strip_suffix('\n')
                        .expect("the line break that the document adds")
                        .to_owned(),
                );
                parsed.parts.push(Part::Fence);
                fenced = false;
            }
            Event::End(TagEnd::Heading(level)) => parsed
                .parts
                .push(Part::Heading(level as usize, take(&mut words))),
            Event::End(TagEnd::Paragraph) if quoted => {
                parsed.parts.push(Part::Quote(take(&mut words)));
            }
            Event::End(TagEnd::Paragraph) => parsed.parts.push(Part::Paragraph(take(&mut words))),
            Event::End(TagEnd::Item) => parsed.parts.push(Part::Item(take(&mut words))),
            Event::End(TagEnd::TableCell) => cells.push(take(&mut words)),
            Event::End(TagEnd::TableHead | TagEnd::TableRow) => {
                parsed.parts.push(Part::Row(std::mem::take(&mut cells)));
            }
            Event::End(TagEnd::BlockQuote(_)) => quoted = false,
            Event::End(TagEnd::List(false) | TagEnd::Table) => {}
            other => panic!("not a structure of ours: {other:?}"),
        }
    }
    parsed
}

/// The words, the empty value shown as any other.
fn take(words: &mut String) -> String {
    std::mem::take(words).replace("(empty)", "▢")
}
