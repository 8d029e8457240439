//! A session out of invented lines: who owns which tokens, which turn is what, what damage costs. The names in brackets are those
//! of `formats/hard-cases.md`.

#![allow(clippy::unwrap_used)]

mod invented;

use invented::{kinds, main_of, session};
use sessionfs::session::{MainThread, MarkerKind, Role, ServiceKind, Session};
use sessionfs::transcript::{Block, Stamp, Usage};

fn usage(input: u64, output: u64, cache_read: u64) -> Usage {
    Usage {
        input,
        output,
        cache_read,
        ..Usage::default()
    }
}

fn texts(session: &Session, turn: usize) -> Vec<String> {
    let blocks = session.threads[0].turns[turn].blocks.iter();
    let texts = blocks.filter_map(|block| match block {
        Block::Text(text) => Some(session.buffers.raw(*text).to_text()),
        _ => None,
    });
    texts.collect()
}

fn strs(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).collect()
}

/// One assistant line with this `message`, which may go on after its content.
fn answer(uuid: &str, id: &str, message: &str) -> String {
    format!(
        r#"{{"type":"assistant","uuid":"{uuid}","message":{{"id":"{id}","model":"x-1","content":[],{message}}}}}"#
    )
}

mod tokens {
    use super::*;

    #[test]
    fn one_line_a_block_is_one_response() {
        // [T01]
        let s = main_of(&[
            r#"{"type":"assistant","uuid":"a1","requestId":"rq1","message":{"id":"m1","model":"x-1","content":[{"type":"thinking","thinking":"hm"}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":50,"cache_read_input_tokens":100}}}"#,
            r#"{"type":"assistant","uuid":"a2","requestId":"rq1","message":{"id":"m1","model":"x-1","content":[{"type":"tool_use","id":"tu1","name":"Bash","input":{"command":"ls"}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":50,"cache_read_input_tokens":100}}}"#,
        ]);
        assert_eq!(s.totals.tokens, usage(3, 50, 100));
        assert_eq!((s.totals.api_responses, s.totals.usage_lines_seen), (1, 2));
        assert_eq!(s.threads[0].turns.len(), 1);
        assert_eq!(s.threads[0].turns[0].blocks.len(), 2);
        assert_eq!(s.totals.tool_calls["Bash"].calls, 1);
        assert_eq!(s.totals.models["x-1"].responses, 1);
        assert_eq!(s.completeness.responses_with_differing_usage, 0);
    }

    #[test]
    fn a_growing_count_is_its_last() {
        // [T02]
        let s = main_of(&[
            &answer(
                "a1",
                "m",
                r#""stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}"#,
            ),
            &answer(
                "a2",
                "m",
                r#""stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}"#,
            ),
            &answer(
                "a3",
                "m",
                r#""stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":260}"#,
            ),
        ]);
        assert_eq!(s.totals.tokens, usage(3, 260, 0));
        assert_eq!(s.completeness.responses_with_differing_usage, 1);
        assert_eq!(s.completeness.responses_without_stop_reason, 0);
    }

    #[test]
    fn no_stop_reason_is_a_lower_bound_and_said() {
        // [T03]
        let s = main_of(&[
            &answer(
                "a1",
                "m",
                r#""stop_reason":null,"usage":{"output_tokens":2}"#,
            ),
            &answer(
                "a2",
                "m",
                r#""stop_reason":null,"usage":{"output_tokens":7}"#,
            ),
        ]);
        assert_eq!(s.totals.tokens.output, 7);
        assert_eq!(s.completeness.responses_without_stop_reason, 1);
        assert!(
            s.completeness
                .notes
                .iter()
                .any(|note| note.contains("lower bound"))
        );
    }

    #[test]
    fn the_request_id_is_no_part_of_the_key() {
        // [T04, T05]
        let s = main_of(&[
            r#"{"type":"assistant","uuid":"a1","message":{"id":"chatcmpl-1","content":[],"usage":{"output_tokens":5}}}"#,
            r#"{"type":"assistant","uuid":"a2","requestId":"rq","message":{"id":"chatcmpl-1","content":[],"usage":{"output_tokens":5}}}"#,
        ]);
        assert_eq!((s.totals.tokens.output, s.totals.api_responses), (5, 1));
    }

    #[test]
    fn without_a_message_id_the_request_then_the_line_counts_and_is_said() {
        let s = main_of(&[
            r#"{"type":"assistant","uuid":"a1","requestId":"rq","message":{"content":[],"usage":{"output_tokens":5}}}"#,
            r#"{"type":"assistant","uuid":"a2","requestId":"rq","message":{"content":[],"usage":{"output_tokens":6}}}"#,
            r#"{"type":"assistant","uuid":"a3","message":{"content":[],"usage":{"output_tokens":7}}}"#,
            r#"{"type":"assistant","message":{"content":[],"usage":{"output_tokens":8}}}"#,
            r#"{"type":"assistant","message":{"content":[],"usage":{"output_tokens":9}}}"#,
        ]);
        assert_eq!(s.totals.tokens.output, 6 + 7 + 8 + 9);
        assert_eq!(s.totals.api_responses, 4);
        assert_eq!(s.completeness.usage_without_message_id, 4);
        assert!(
            s.completeness
                .notes
                .iter()
                .any(|note| note.contains("upper bound"))
        );
    }

    #[test]
    fn a_side_question_counts_its_own_answer_only() {
        // [T06]
        let s = session(&[
            (
                "S.jsonl",
                &[&answer(
                    "a1",
                    "m1",
                    r#""usage":{"input_tokens":1,"output_tokens":10,"cache_read_input_tokens":20}"#,
                )],
            ),
            (
                "S/subagents/agent-aside_question-0123456789abcdef.jsonl",
                &[
                    &answer(
                        "b1",
                        "m1",
                        r#""usage":{"input_tokens":1,"output_tokens":10,"cache_read_input_tokens":50000}"#,
                    ),
                    &answer(
                        "b2",
                        "m2",
                        r#""usage":{"input_tokens":1,"output_tokens":30,"cache_read_input_tokens":700}"#,
                    ),
                ],
            ),
        ]);
        assert_eq!(s.totals.tokens, usage(2, 40, 720));
        assert_eq!(s.threads[0].totals.tokens, usage(1, 10, 20));
        assert!(matches!(
            s.threads[1].role,
            Role::Service(ServiceKind::SideQuestion)
        ));
        assert_eq!(s.threads[1].totals.tokens, usage(1, 30, 700));
        assert_eq!(
            s.threads[1].turns.len(),
            1,
            "the replay is no turn of its own"
        );
        assert_eq!(s.totals.usage_lines_seen, 3);
    }

    #[test]
    fn one_whole_line_speaks_after_a_fallback() {
        // [T07]
        let s = main_of(&[
            r#"{"type":"assistant","uuid":"a1","message":{"id":"m1","model":"x-1","content":[],"usage":{"output_tokens":9,"cache_read_input_tokens":900}}}"#,
            r#"{"type":"assistant","uuid":"a2","message":{"id":"m1","model":"x-2","content":[],"usage":{"output_tokens":20,"cache_read_input_tokens":5}}}"#,
        ]);
        assert_eq!(s.totals.tokens, usage(0, 20, 5));
        assert_eq!(s.totals.models.keys().collect::<Vec<_>>(), ["x-2"]);
    }

    #[test]
    fn counts_that_are_no_numbers_cost_no_line() {
        // [T08]
        let s = main_of(&[
            &answer(
                "a1",
                "m1",
                r#""usage":{"input_tokens":"12","output_tokens":3.0,"cache_read_input_tokens":null,"cache_creation_input_tokens":-4}"#,
            ),
            &answer(
                "a2",
                "m2",
                r#""usage":{"input_tokens":{},"output_tokens":"many","cache_read_input_tokens":18446744073709551616}"#,
            ),
        ]);
        assert_eq!(s.totals.tokens, usage(12, 3, 0));
        assert_eq!(s.totals.api_responses, 2);
        assert_eq!(s.completeness.counts_not_numbers, 6);
    }

    #[test]
    fn sums_saturate_and_say_so() {
        let s = main_of(&[
            &answer(
                "a1",
                "m1",
                r#""usage":{"output_tokens":18446744073709551615}"#,
            ),
            &answer(
                "a2",
                "m2",
                r#""usage":{"output_tokens":18446744073709551615}"#,
            ),
        ]);
        assert_eq!(s.totals.tokens.output, u64::MAX);
        let notes = s
            .completeness
            .notes
            .iter()
            .filter(|note| note.contains("larger than can be counted"));
        assert_eq!(notes.count(), 1);
    }

    #[test]
    fn what_the_harness_wrote_itself_is_no_response() {
        // [T09]
        let s = main_of(&[
            r#"{"type":"assistant","uuid":"a1","message":{"id":"m1","model":"<synthetic>","content":[{"type":"text","text":"No response requested."}],"usage":{"input_tokens":0,"output_tokens":0}}}"#,
            r#"{"type":"assistant","uuid":"a2","isApiErrorMessage":true,"message":{"id":"m2","model":"x","content":[{"type":"text","text":"API Error"}],"usage":{"output_tokens":4}}}"#,
            r#"{"type":"system","subtype":"api_error","uuid":"e1","error":{"status":529},"retryInMs":1087.3302}"#,
        ]);
        assert_eq!(
            (s.totals.api_responses, s.totals.tokens),
            (0, Usage::default())
        );
        assert!(s.totals.models.is_empty());
        assert_eq!(kinds(&s.threads[0]), ["error", "error", "error"]);
        assert_eq!(s.totals.usage_lines_seen, 2);
    }

    #[test]
    fn parts_add_up() {
        // [T10, T12]
        let stamped = answer("c1", "m2", r#""usage":{"output_tokens":10}"#).replacen(
            "{\"type\"",
            "{\"timestamp\":\"2026-01-02T00:00:00Z\",\"type\"",
            1,
        );
        let s = session(&[
            (
                "S.jsonl",
                &[&answer(
                    "a1",
                    "m1",
                    r#""usage":{"output_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":3}}"#,
                )],
            ),
            (
                "S/subagents/agent-a1.jsonl",
                &[&answer("b1", "m2", r#""usage":{"output_tokens":10}"#)],
            ),
            (
                "S/subagents/agent-a2.jsonl",
                &[
                    &stamped,
                    &answer("c2", "m3", r#""usage":{"output_tokens":100}"#),
                ],
            ),
        ]);
        // m2 stands in both agents; it belongs to the one that has a start.
        let output: Vec<_> = s
            .threads
            .iter()
            .map(|t| (t.id.as_str(), t.totals.tokens.output))
            .collect();
        assert_eq!(output, [("main", 1), ("a2", 110), ("a1", 0)]);
        assert_eq!(s.totals.tokens.output, 111);
        assert_eq!(
            (
                s.totals.tokens.cache_creation,
                s.totals.tokens.cache_creation_1h
            ),
            (7, 3)
        );
        assert_eq!(s.totals.models["x-1"].responses, 3);
    }

    #[test]
    fn usage_that_others_report_is_never_added() {
        let s = main_of(&[
            r#"{"type":"progress","uuid":"p1","parentToolUseID":"t1","data":{"type":"agent_progress","agentId":"a1","message":{"type":"assistant","message":{"id":"m9","usage":{"output_tokens":500}}}}}"#,
            r#"{"type":"user","uuid":"u1","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]},"toolUseResult":{"agentId":"a1","totalTokens":900,"usage":{"output_tokens":700}}}"#,
            &answer(
                "a1",
                "m1",
                r#""usage":{"output_tokens":5,"iterations":[{"output_tokens":3},{"output_tokens":2}]}"#,
            ),
        ]);
        assert_eq!((s.totals.tokens.output, s.totals.usage_lines_seen), (5, 1));
    }
}

mod turns {
    use super::*;

    #[test]
    fn each_line_is_what_it_is() {
        // [T61]
        let user = |text: &str| {
            format!(r#"{{"type":"user","message":{{"role":"user","content":"{text}"}}}}"#)
        };
        let queued = |mode: &str, prompt: &str| {
            format!(
                r#"{{"type":"attachment","attachment":{{"type":"queued_command","commandMode":"{mode}","prompt":{prompt}}}}}"#
            )
        };
        let cases = [
            ("user", user("Please fix it")),
            ("tool-result", r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}}"#.to_owned()),
            ("summary", r#"{"type":"user","isCompactSummary":true,"message":{"content":"so far"}}"#.to_owned()),
            ("injected", r#"{"type":"user","isMeta":true,"message":{"content":"Caveat"}}"#.to_owned()),
            ("notification", user("<task-notification>\\n<task-id>b1</task-id></task-notification>")),
            ("peer", user("<teammate-message teammate_id=\\\"lead\\\" color=\\\"red\\\">hello</teammate-message>")),
            ("command", user("<command-name>/clear</command-name>")),
            ("command", user("\\n <local-command-stdout>done</local-command-stdout>")),
            ("injected", user("<local-command-caveat>mind</local-command-caveat>")),
            ("command", user("<bash-input>ls</bash-input>")),
            ("interruption", user("[Request interrupted by user for tool use]")),
            ("injected", user("<ide_opened_file>a.rs</ide_opened_file>")),
            ("user", user("<ide_opened_file>a.rs</ide_opened_file>\\nWhat is this?")),
            ("injected", user("<system-reminder>note</system-reminder>")),
            ("command", r#"{"type":"system","subtype":"local_command","content":"<command-name>/x</command-name>"}"#.to_owned()),
            ("user", queued("prompt", "\"and this\"")),
            ("user", queued("prompt", r#"[{"type":"text","text":"and that"}]"#)),
            ("notification", queued("task-notification", "\"<task-notification><task-id>b2</task-id></task-notification>\"")),
            ("peer", r#"{"type":"user","origin":{"kind":"peer","from":"other"},"message":{"content":"from a peer"}}"#.to_owned()),
        ];
        let lines: Vec<String> = cases.iter().map(|(_, line)| line.clone()).collect();
        let s = main_of(&strs(&lines));
        assert_eq!(kinds(&s.threads[0]), cases.map(|(kind, _)| kind));
        // Editor context in front of a prompt is a block of its own.
        assert_eq!(
            texts(&s, 12),
            ["<ide_opened_file>a.rs</ide_opened_file>", "\nWhat is this?"]
        );
        let origin = s.threads[0].turns[5].origin.as_ref().unwrap();
        assert_eq!(s.buffers.raw(origin.from.unwrap()).to_text(), "lead");
        assert_eq!(s.totals.turns.total, 19);
        assert_eq!(
            (
                s.totals.turns.user,
                s.totals.turns.peer,
                s.totals.turns.tool_result
            ),
            (4, 2, 1)
        );
        assert_eq!(s.totals.turns.other, 12);
    }

    #[test]
    fn a_response_stays_one_whatever_stands_between_its_lines() {
        // [T60]
        let s = main_of(&[
            r#"{"type":"assistant","uuid":"x1","message":{"id":"M","content":[{"type":"text","text":"t"}],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}"#,
            r#"{"type":"user","uuid":"r0","message":{"content":[{"type":"tool_result","tool_use_id":"T0","content":"ok"}]}}"#,
            r#"{"type":"attachment","attachment":{"type":"queued_command","commandMode":"prompt","prompt":"wait"}}"#,
            r#"{"type":"assistant","uuid":"x2","message":{"id":"M","content":[{"type":"tool_use","id":"T","name":"Bash","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":90}}}"#,
        ]);
        assert_eq!(kinds(&s.threads[0]), ["assistant", "tool-result", "user"]);
        assert_eq!(s.threads[0].turns[0].blocks.len(), 2);
        assert_eq!(s.totals.tokens, usage(3, 90, 0));
        assert_eq!(s.completeness.tool_calls_without_result, 1);
        assert_eq!(s.completeness.tool_results_without_call, 1);
    }

    #[test]
    fn copies_of_lines_are_no_lines_and_a_compaction_keeps_what_stood_before() {
        // [T13, T14, T15]
        let one = r#"{"type":"assistant","uuid":"a1","parentUuid":"u1","message":{"id":"m1","content":[{"type":"text","text":"one"}],"usage":{"output_tokens":1}}}"#;
        let s = main_of(&[
            r#"{"type":"user","uuid":"u1","parentUuid":null,"message":{"content":"go"}}"#,
            one,
            r#"{"type":"system","subtype":"compact_boundary","uuid":"c1","parentUuid":null,"logicalParentUuid":"a1","compactMetadata":{"trigger":"manual","preTokens":9,"postTokens":2}}"#,
            r#"{"type":"user","uuid":"s1","parentUuid":"c1","isCompactSummary":true,"message":{"content":"summary"}}"#,
            r#"{"type":"assistant","uuid":"a2","parentUuid":"s1","message":{"id":"m2","content":[{"type":"text","text":"two"}],"usage":{"output_tokens":1}}}"#,
            one,
        ]);
        assert_eq!(
            kinds(&s.threads[0]),
            ["user", "assistant", "summary", "assistant"]
        );
        assert_eq!(s.completeness.lines_duplicate, 1);
        let marker = &s.threads[0].markers[0];
        assert_eq!(marker.turn, Some(1));
        let MarkerKind::Compacted {
            trigger,
            pre_tokens,
            post_tokens,
            micro,
        } = &marker.what
        else {
            panic!("{marker:?}")
        };
        assert_eq!(
            (trigger.as_deref(), *pre_tokens, *post_tokens, *micro),
            (Some("manual"), Some(9), Some(2), false)
        );
        assert_eq!(s.totals.tokens.output, 2);
    }

    #[test]
    fn membership_never_depends_on_the_chain_of_parents() {
        // [T14, T22]: parents that are missing, are no turns, or lead back before a boundary.
        let s = main_of(&[
            r#"{"type":"attachment","uuid":"x1","parentUuid":"gone","attachment":{"type":"hook_success"}}"#,
            r#"{"type":"user","uuid":"u1","parentUuid":"x1","message":{"content":"one"}}"#,
            r#"{"type":"system","subtype":"microcompact_boundary","uuid":"c1","parentUuid":"u1","microcompactMetadata":{"trigger":"auto","preTokens":9}}"#,
            r#"{"type":"user","uuid":"u2","parentUuid":"nowhere","message":{"content":"two"}}"#,
            r#"{"type":"user","uuid":"u3","parentUuid":"u1","message":{"content":"three"}}"#,
        ]);
        assert_eq!(kinds(&s.threads[0]), ["user", "user", "user"]);
        let what = &s.threads[0].markers[0].what;
        assert!(matches!(what, MarkerKind::Compacted { micro: true, .. }));
    }

    #[test]
    fn a_strange_message_is_shown_and_not_lost() {
        let s = main_of(&[
            r#"{"type":"assistant","uuid":"q","message":{"0":"<","1":"h"}}"#,
            r#"{"type":"user","uuid":"r","message":{"content":7}}"#,
            r#"{"type":"user","uuid":"t","message":"bare"}"#,
            r#"{"type":"user","uuid":"v","message":null}"#,
        ]);
        assert_eq!(kinds(&s.threads[0]), ["assistant", "user", "user", "user"]);
        let shown: Vec<usize> = s.threads[0]
            .turns
            .iter()
            .map(|turn| turn.blocks.len())
            .collect();
        assert_eq!(shown, [1, 1, 1, 0]);
    }

    #[test]
    fn types_are_counted() {
        // [T19, T45, T74]
        let s = main_of(&[
            r#"{"type":"ai-title","aiTitle":"First","sessionId":"$S"}"#,
            r#"{"type":"ai-title","aiTitle":"Second","sessionId":"$S"}"#,
            r#"{"type":"system","subtype":"turn_duration","durationMs":5}"#,
            r#"{"type":"attachment","attachment":{"type":"hook_success"}}"#,
            r#"{"type":"brand-new","x":1}"#,
            r#"{"type":"system","subtype":"newer"}"#,
            r#"{"x":1}"#,
        ]);
        assert_eq!(s.title.as_deref(), Some("Second"));
        assert!(s.threads[0].turns.is_empty());
        assert_eq!(
            format!("{:?}", s.completeness.line_types_not_shown),
            r#"{"ai-title": 2, "attachment/hook_success": 1, "system/turn_duration": 1}"#
        );
        assert_eq!(
            format!("{:?}", s.completeness.line_types_unknown),
            r#"{"(none)": 1, "brand-new": 1, "system/newer": 1}"#
        );
    }

    #[test]
    fn the_persons_title_beats_the_harness_and_a_strangers_summary_is_none() {
        // [T62]
        let title = |lines: &[&str]| main_of(lines).title.unwrap();
        let stranger = r#"{"type":"summary","summary":"another session","leafUuid":"elsewhere"}"#;
        let prompt =
            r#"{"type":"user","uuid":"u1","message":{"content":"  Fix the parser\nplease"}}"#;
        let own = r#"{"type":"summary","summary":"this session","leafUuid":"u1"}"#;
        let harness = r#"{"type":"ai-title","aiTitle":"Its"}"#;
        let person = r#"{"type":"custom-title","customTitle":"Mine"}"#;
        assert_eq!(title(&[stranger, prompt]), "Fix the parser");
        assert_eq!(title(&[own, prompt]), "this session");
        assert_eq!(title(&[harness, own, prompt]), "Its");
        assert_eq!(title(&[person, harness, own, prompt]), "Mine");
    }

    #[test]
    fn times_are_facts_of_their_own() {
        // [T55, T71]
        let line = |time: &str| {
            format!(r#"{{"type":"user","message":{{"content":"x"}},"timestamp":{time}}}"#)
        };
        let lines = [
            line(r#""2026-01-01T00:00:10.000Z""#),
            line(r#""2026-01-01T00:00:05Z""#),
            line(r#""2026-01-01T00:00:12Z""#),
            line(r#""2026-01-01T01:00:05.250Z""#),
            line("null"),
            line(r#""yesterday""#),
        ];
        let s = main_of(&strs(&lines));
        assert_eq!(s.span.started.unwrap().to_string(), "2026-01-01T00:00:05Z");
        assert_eq!(s.span.ended.unwrap().to_string(), "2026-01-01T01:00:05.25Z");
        // Two seconds past the latest time, then the cap: the step back counts neither way.
        assert_eq!(s.span.active_ms, 302_000);
        assert_eq!(s.completeness.timestamps_backwards, 1);
        assert_eq!(s.completeness.timestamps_missing, 2);
        assert!(matches!(s.threads[0].turns[5].at, Stamp::Unreadable(_)));
    }

    #[test]
    fn the_first_directory_of_the_main_thread_names_the_project() {
        // [T66, T67]
        let s = main_of(&[
            r#"{"type":"user","cwd":"C:\\Users\\me\\parser","message":{"content":"x"}}"#,
            r#"{"type":"user","cwd":"/elsewhere/other","message":{"content":"x"}}"#,
        ]);
        assert_eq!(s.project.as_deref(), Some("parser"));
    }
}

mod bytes {
    use super::*;

    #[test]
    fn awkward_strings_cost_nothing() {
        // [T46 to T49]
        let s = main_of(&[
            r#"{"type":"user","uuid":"u1","type":"assistant","message":{"content":"cut \ud83d"}}"#,
            "{\"type\":\"user\",\"uuid\":\"u2\",\"message\":{\"content\":\"nul \\u0000 raw \u{1b} sep \u{2028}.\"}}",
        ]);
        assert_eq!(kinds(&s.threads[0]), ["user", "user"]);
        assert!(s.completeness.lines_unparseable.is_empty());
        assert!(
            s.completeness
                .notes
                .iter()
                .any(|note| note.starts_with("1 key(s) stood twice"))
        );
        assert_eq!(texts(&s, 1), ["nul \0 raw \u{1b} sep \u{2028}."]);
    }

    #[test]
    fn damage_names_line_and_offset_and_costs_its_line_alone() {
        // [T42 to T44]
        let whole = r#"{"type":"user","uuid":"u1","message":{"content":"one"}}"#;
        let s = main_of(&[
            whole,
            r#"{"type":"user","uuid":"u9","mess{"type":"user","uuid":"u2","message":{"content":"two"}}"#,
            "not json",
            r#"{"type":"user","uuid":"u3","message":{"content":"three"}}"#,
        ]);
        let turns: Vec<u64> = s.threads[0].turns.iter().map(|turn| turn.line).collect();
        assert_eq!(turns, [1, 2, 4]);
        let damage = &s.completeness.lines_unparseable;
        assert_eq!(damage.len(), 2);
        assert_eq!(
            (damage[0].line, damage[0].offset),
            (2, whole.len() as u64 + 1)
        );
        assert_eq!(
            (damage[0].why, damage[0].recovered),
            ("cut by the next record", true)
        );
        assert_eq!((damage[1].line, damage[1].recovered), (3, false));
    }

    #[test]
    fn nesting_is_no_danger() {
        let deep = format!(
            r#"{{"type":"user","uuid":"u1","message":{{"content":"x"}},"toolUseResult":{}1{}}}"#,
            "[".repeat(200_000),
            "]".repeat(200_000)
        );
        assert_eq!(kinds(&main_of(&[&deep]).threads[0]), ["user"]);
    }

    #[test]
    fn the_main_file_may_be_missing() {
        // [T41]
        let line = r#"{"type":"user","uuid":"b1","sessionId":"$S","isSidechain":true,"message":{"content":"work"}}"#;
        let s = session(&[("S/subagents/agent-a1.jsonl", &[line])]);
        assert_eq!(s.completeness.main_thread, MainThread::Missing);
        assert_eq!(s.completeness.agents_unattributed, 1);
        assert_eq!(kinds(&s.threads[0]), ["task"]);
    }
}

mod rewinds {
    use super::*;
    use sessionfs::transcript::TurnKind;

    fn prompt(uuid: &str, parent: &str, second: u32) -> String {
        format!(
            r#"{{"type":"user","uuid":"{uuid}","parentUuid":"{parent}","timestamp":"2026-01-01T00:00:{second:02}Z","message":{{"content":"{uuid}"}}}}"#
        )
    }

    fn reply(uuid: &str, parent: &str) -> String {
        format!(
            r#"{{"type":"assistant","uuid":"{uuid}","parentUuid":"{parent}","message":{{"id":"m{uuid}","content":[]}}}}"#
        )
    }

    fn rewound(lines: &[String]) -> Vec<(Option<usize>, usize)> {
        let s = main_of(&strs(lines));
        assert!(
            s.threads[0]
                .turns
                .iter()
                .all(|turn| turn.kind != TurnKind::Error)
        );
        let markers = s.threads[0].markers.iter();
        let places = markers.map(|marker| match marker.what {
            MarkerKind::Rewound { from } => (marker.turn, from),
            _ => panic!("{marker:?}"),
        });
        places.collect()
    }

    #[test]
    fn the_branch_that_was_left_stays_and_is_marked() {
        // [T21]
        let lines = [
            reply("a", "x"),
            prompt("b", "a", 1),
            reply("c", "b"),
            prompt("d", "a", 9),
            reply("e", "d"),
        ];
        // Turns 2 and 3 were left when turn 4 went back.
        assert_eq!(rewound(&lines), [(Some(2), 1)]);
        // The harness says that the first branch is the live one: then the second was left, up to its own end.
        let mut lines = lines.to_vec();
        lines.push(r#"{"type":"last-prompt","leafUuid":"c","sessionId":"$S"}"#.to_owned());
        assert_eq!(rewound(&lines), [(Some(4), 3)]);
    }

    #[test]
    fn what_only_shares_a_parent_is_no_rewind() {
        let same_time = [
            reply("a", "x"),
            prompt("b", "a", 1),
            prompt("c", "a", 1),
            reply("d", "a"),
        ];
        assert_eq!(rewound(&same_time), []);
        let circle = [
            prompt("a", "b", 1),
            prompt("b", "a", 2),
            prompt("c", "a", 3),
        ];
        assert_eq!(rewound(&circle), [(Some(1), 1)]);
    }
}

mod copies {
    use super::*;

    const OLD: &str = "00000000-0000-4000-8000-00000000000a";

    fn said(uuid: &str, second: u32, extra: &str) -> String {
        format!(
            r#"{{"type":"assistant","uuid":"{uuid}","timestamp":"2026-01-01T00:00:{second:02}Z"{extra},"message":{{"id":"m{uuid}","content":[],"stop_reason":"end_turn","usage":{{"output_tokens":10}}}}}}"#
        )
    }

    /// The session whose file holds `new`, beside an older one of `old` lines.
    fn beside(old: &[String], new: &[String]) -> Session {
        let path = format!("{OLD}.jsonl");
        session(&[(&path, &strs(old)), ("S.jsonl", &strs(new))])
    }

    fn copied(s: &Session) -> Option<(Vec<&str>, u64)> {
        let copied = s.copied.as_ref()?;
        let ids = copied.sessions.iter().map(String::as_str).collect();
        Some((ids, copied.tokens.output))
    }

    #[test]
    fn a_session_that_begins_as_a_copy_says_which_part_is_copied() {
        // [T16]: the copied lines keep the older session's ID.
        let old = format!(r#","sessionId":"{OLD}""#);
        let s = beside(
            &[said("a", 1, &old), said("b", 2, &old)],
            &[
                said("a", 1, &old),
                said("b", 2, &old),
                said("c", 9, r#","sessionId":"$S""#),
            ],
        );
        assert_eq!(s.totals.tokens.output, 30);
        assert_eq!(copied(&s), Some((vec![OLD], 20)));
        // `forkedFrom` says so too, whatever the session IDs say.
        let forked =
            format!(r#","sessionId":"$S","forkedFrom":{{"sessionId":"{OLD}","messageUuid":"a"}}"#);
        let s = beside(
            &[said("a", 1, &old)],
            &[said("a", 1, &forked), said("c", 9, "")],
        );
        assert_eq!(copied(&s), Some((vec![OLD], 10)));
    }

    #[test]
    fn an_equal_first_line_makes_the_one_that_went_on_later_the_copy() {
        // [T17]
        let own = r#","sessionId":"$S""#;
        let s = beside(&[said("a", 1, "")], &[said("a", 1, own), said("c", 9, own)]);
        assert_eq!(copied(&s), Some((vec![OLD], 10)));
        // The other one is the copy.
        let s = beside(
            &[said("a", 1, ""), said("d", 20, "")],
            &[said("a", 1, own), said("c", 9, own)],
        );
        assert_eq!(copied(&s), None);
        assert!(
            s.completeness.notes.is_empty(),
            "{:?}",
            s.completeness.notes
        );
        // Nothing tells them apart: said, and nothing is trimmed.
        let s = beside(&[said("a", 1, "")], &[said("a", 1, own)]);
        assert_eq!(copied(&s), None);
        assert!(
            s.completeness
                .notes
                .iter()
                .any(|note| note.contains("which is the copy"))
        );
    }

    /// A line that says in which session this one goes on.
    fn continued_in(id: &str) -> String {
        format!(r#"{{"type":"continued-in","continuedInSessionId":"{id}"}}"#)
    }

    #[test]
    fn a_session_in_which_another_goes_on_is_the_copy() {
        // [T18]: the first lines differ, and only the older session says what became of it.
        let s = beside(
            &[said("z", 1, ""), said("a", 2, ""), continued_in("$S")],
            &[said("a", 2, ""), said("c", 9, "")],
        );
        assert_eq!(s.totals.tokens.output, 20);
        assert_eq!(copied(&s), Some((vec![OLD], 10)));
        assert!(!s.completeness.has_gap());
        // The line says so even where the older session went on later, and where nothing was taken along.
        let s = beside(
            &[said("a", 1, ""), continued_in("$S"), said("d", 20, "")],
            &[said("a", 1, ""), said("c", 9, "")],
        );
        assert_eq!(copied(&s), Some((vec![OLD], 10)));
        let s = beside(&[said("z", 1, ""), continued_in("$S")], &[said("a", 2, "")]);
        assert_eq!(copied(&s), Some((vec![OLD], 0)));
        // It says nothing to any other session.
        let other = continued_in("99999999-0000-4000-8000-000000000009");
        let s = beside(&[said("z", 1, ""), other], &[said("z2", 2, "")]);
        assert_eq!(copied(&s), None);
        assert!(!s.completeness.has_gap());
    }

    #[test]
    fn sessions_that_go_on_in_each_other_leave_it_to_their_lines_which_is_the_copy() {
        // [T18]
        let s = beside(
            &[said("a", 1, ""), said("d", 5, ""), continued_in("$S")],
            &[said("a", 1, ""), said("c", 9, ""), continued_in(OLD)],
        );
        assert_eq!(copied(&s), Some((vec![OLD], 10)), "it went on later");
        let s = beside(
            &[said("a", 1, ""), said("d", 20, ""), continued_in("$S")],
            &[said("a", 1, ""), said("c", 9, ""), continued_in(OLD)],
        );
        assert_eq!(copied(&s), None, "it went on earlier");
        // One whose own lines call this one their origin is no older session, whatever its end says.
        let forked = r#","forkedFrom":{"sessionId":"$S"}"#;
        let s = beside(
            &[said("a", 1, forked), said("d", 20, ""), continued_in("$S")],
            &[said("a", 1, ""), said("c", 9, "")],
        );
        assert_eq!(copied(&s), None);
    }

    #[test]
    fn an_origin_that_is_not_here_is_said_and_nothing_is_complete() {
        let forked = r#","forkedFrom":{"sessionId":"99999999-0000-4000-8000-000000000009"}"#;
        let s = beside(&[said("z", 1, "")], &[said("a", 1, forked)]);
        assert_eq!(copied(&s), None);
        assert!(
            s.completeness.notes[0].contains("99999999-"),
            "{:?}",
            s.completeness.notes
        );
        assert!(s.completeness.has_gap());
        // Neither of two sessions that begin alike is known to be the copy.
        let s = beside(&[said("a", 1, "")], &[said("a", 1, "")]);
        assert!(s.completeness.has_gap());
    }

    #[test]
    fn a_session_of_its_own_has_copied_nothing() {
        let s = beside(&[said("a", 1, "")], &[said("b", 2, r#","sessionId":"$S""#)]);
        assert_eq!(copied(&s), None);
        assert!(s.completeness.notes.is_empty());
    }
}
