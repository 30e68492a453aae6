//! Errors of the libraries in words that help.

use std::error::Error;

/// An error with its causes: the libraries' outermost words alone say little ("client error"). Of what the API
/// server said, its own sentence.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(kube::Error::Api(status)) = error.downcast_ref() {
            return join(text, &status.message);
        }
        // kube prints its cause within its own words, and the whole `Status` after it.
        let words = error.to_string();
        let own = words.split(": ApiError: ").next().unwrap_or(&words);
        text = join(text, &own.replace("ServiceError: ", ""));
        next = error.source();
    }
    text
}

fn join(text: String, words: &str) -> String {
    if text.is_empty() {
        words.to_owned()
    } else if words.is_empty() || text.contains(words) {
        text
    } else {
        format!("{text}: {words}")
    }
}
