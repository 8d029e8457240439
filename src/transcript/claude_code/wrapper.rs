//! The one wrapper that the harness writes round another session's message.

use memchr::memmem;

/// What the harness says before the wrapper.
const BEFORE: &[u8] = b"Another Claude session sent a message:\n";
/// The wrapper: an opening tag with attributes and a line break, and a closing one on a line of its own.
const OPEN: &[u8] = b"<cross-session-message";
const CLOSE: &[u8] = b"\n</cross-session-message>";
/// How what the harness says after the wrapper begins.
const AFTER: &[u8] = b"\n\nThis came from another Claude session";

/// The text inside the wrapper, if the whole text is a wrapped message with, at most, the harness's own words round it.
pub fn unwrapped(text: &[u8]) -> Option<&[u8]> {
    let rest = text.strip_prefix(BEFORE).unwrap_or(text);
    let rest = rest.strip_prefix(OPEN)?;
    let attributes = memmem::find(rest, b">\n")?;
    if attributes > 0 && !rest.starts_with(b" ") {
        return None;
    }
    // The line break before an empty message is the one before the closing tag too.
    let body = &rest[attributes + 1..];
    let close = memmem::rfind(body, CLOSE)?;
    let after = &body[close + CLOSE.len()..];
    if !after.is_empty() && !after.starts_with(AFTER) {
        return None;
    }
    Some(body.get(1..close).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wrapper_goes_and_nothing_else() {
        let open = "<cross-session-message from=\"uds:/run/a.sock\" from-name=\"a\">\n";
        let close = "\n</cross-session-message>";
        let says = "Another Claude session sent a message:\n";
        let note = "\n\nThis came from another Claude session, not from your user.";
        let inside = |text: String| {
            unwrapped(text.as_bytes()).map(|t| String::from_utf8(t.to_vec()).unwrap())
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(inside(format!("{open}go on{close}")), some("go on"));
        assert_eq!(
            inside(format!("{says}{open}go\non{close}{note}")),
            some("go\non")
        );
        assert_eq!(inside(format!("{open}{close}")), some(""));
        assert_eq!(inside(format!("{open}\n {close}")), some("\n "));
        assert_eq!(
            inside(format!("{open}a{close}b{close}")),
            some(&format!("a{close}b"))
        );
        assert_eq!(
            inside("<cross-session-message>\nx\n</cross-session-message>".into()),
            some("x")
        );

        for text in [
            "go on".to_owned(),
            format!("x{open}go on{close}"),
            format!("{open}go on{close} and so on"),
            format!("{open}go on"),
            format!("{says}go on"),
            "<cross-session-messages>\nx\n</cross-session-message>".into(),
            "<cross-session-message".into(),
        ] {
            assert_eq!(inside(text.clone()), None, "{text}");
        }
    }
}
