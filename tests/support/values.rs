//! Arbitrary values, and how they must be shown.

use proptest::prelude::*;

/// What a session is made of: values, and choices of structure.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) pool: Vec<Vec<u8>>,
    pub(crate) choices: Vec<u8>,
}

/// Values that try to be structure, and values of any kind.
pub(crate) fn recipe() -> impl Strategy<Value = Recipe> {
    let forged = prop::sample::select(FORGED.to_vec()).prop_map(|text| text.as_bytes().to_vec());
    let anything = prop_oneof![
        4 => forged,
        1 => any::<String>().prop_map(String::into_bytes),
        // Raw bytes of a lone surrogate would be three characters where an escaped one is one; the test's own form knows only the latter.
        1 => prop::collection::vec(any::<u8>().prop_map(|byte| if byte == 0xED { 0xEC } else { byte }), 0..12),
        1 => prop::collection::vec(prop::sample::select(b"`~\n\r|\\<>[]#-*_ \t!&x".to_vec()), 0..12),
    ];
    let value = prop::collection::vec(anything, 0..4).prop_map(|pieces| pieces.concat());
    (
        prop::collection::vec(value, 24),
        prop::collection::vec(any::<u8>(), 160),
    )
        .prop_map(|(pool, choices)| Recipe { pool, choices })
}

/// The sessions whose values are all one of these.
pub(crate) fn recipe_of(values: &'static [&'static str]) -> impl Strategy<Value = Recipe> {
    let value = prop::sample::select(values).prop_map(|value| value.as_bytes().to_vec());
    (
        prop::collection::vec(value, 24),
        prop::collection::vec(any::<u8>(), 160),
    )
        .prop_map(|(pool, choices)| Recipe { pool, choices })
}

const FORGED: &[&str] = &[
    "\n\n## Agent `x`\n\n",
    "\n### Turn 99 · user · now\n",
    "\n> [JOINED agent `x` here; its result arrived at this turn]\n",
    "# Session",
    "```",
    "```\n",
    "````\n# out\n",
    "~~~\n",
    "`",
    "``",
    " ` ",
    "|",
    "| a | b |\n| --- | --- |\n| c | d |\n",
    "- item\n",
    "1. item\n",
    "\n---\n",
    "===\n",
    "    code\n",
    "<b>",
    "<!--",
    "<script>alert(1)</script>",
    "<http://example.org>",
    "[a](http://example.org)",
    "[a]: http://example.org\n",
    "]: x",
    "![a](b.png)",
    "*a*",
    "__a__",
    "&lt;",
    "\\",
    "\\u0060",
    "\\n",
    "\r\n",
    "\r",
    "\u{1b}[31m",
    "\u{202e}",
    "\u{2028}",
    "\u{85}",
    "\u{0}",
    "\u{e0041}",
    "\u{200b}",
    "\u{3000}",
    " ",
    "  ",
    "/marker/secret/last",
    "C:\\marker\\secret\\last",
    "plain",
    "日本",
    "{\"a\": [1]}",
    "\"",
];

/// The display form of decoded bytes, as plainly as it can be said. A lone surrogate is one character, not three bytes.
pub(crate) fn display(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        if let [0xED, 0xA0..=0xBF, _, after @ ..] = rest {
            text.push('\u{fffd}');
            rest = after;
            continue;
        }
        let valid = std::str::from_utf8(rest).map_or_else(|error| error.valid_up_to(), str::len);
        let plain = &rest[..valid];
        if valid > 0 {
            text.push_str(std::str::from_utf8(plain).unwrap());
            rest = &rest[valid..];
        } else {
            let skipped = std::str::from_utf8(rest)
                .unwrap_err()
                .error_len()
                .unwrap_or(rest.len());
            text.push('\u{fffd}');
            rest = &rest[skipped..];
        }
    }
    let mut shown = String::new();
    for c in text.replace("\r\n", "\n").chars() {
        let hidden = (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}');
        if hidden {
            shown.extend(format!("\\u{{{:X}}}", c as u32).chars());
        } else {
            shown.push(c);
        }
    }
    shown
}
