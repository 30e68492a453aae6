use std::collections::BTreeSet;

use super::{Action, Place, Scope, all, model, nearest};

/// Place 0 is the first sequence's, and so on.
fn places() -> impl Iterator<Item = (super::Sequence, Place)> {
    all().into_iter().enumerate().map(|(number, sequence)| (sequence, Place::of(number)))
}

#[test]
fn there_are_sixty_sequences_at_least_each_with_a_name_of_its_own() {
    let names: BTreeSet<_> = all().iter().map(|sequence| sequence.name).collect();
    assert_eq!(names.len(), all().len());
    assert!(names.len() >= 60, "{}", names.len());
    assert!(names.len() <= 250, "places are numbered by one byte");
}

/// Otherwise others that run beside it would change what it shows.
#[test]
fn a_sequence_beside_others_does_not_mind_another_look() {
    let mut found = Vec::new();
    for (sequence, place) in places().filter(|(sequence, _)| sequence.scope != Scope::Alone) {
        let (quiet, nudged) =
            (model::transcripts(&sequence, &place, false), model::transcripts(&sequence, &place, true));
        let differs = nudged.iter().find(|transcript| !quiet.contains(transcript));
        found.extend(differs.map(|seen| format!("{}: {}", sequence.name, nearest(&quiet, seen))));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn only_restarts_stop_metallb_and_once() {
    for (sequence, place) in places() {
        let actions = (sequence.actions)(&place);
        let count = |wanted: fn(&Action) -> bool| actions.iter().filter(|action| wanted(action)).count();
        let expected = usize::from(sequence.scope == Scope::Restart);
        assert_eq!(count(|action| matches!(action, Action::Stop)), expected, "{}", sequence.name);
        assert_eq!(count(|action| matches!(action, Action::Start)), expected, "{}", sequence.name);
    }
}
