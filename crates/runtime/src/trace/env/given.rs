//! One variable, and what its text means.

use std::time::Duration;

use percent_encoding::percent_decode_str;

use super::EnvError;

/// The variables of a process.
pub(super) struct Variables<'a>(pub(super) &'a dyn Fn(&str) -> Option<String>);

/// A variable that is set.
pub(super) struct Given {
    pub(super) name: String,
    pub(super) value: String,
}

impl Variables<'_> {
    /// One that is set, and not to nothing.
    pub(super) fn get(&self, name: &str) -> Option<Given> {
        let value = (self.0)(name)?.trim().to_owned();
        (!value.is_empty()).then(|| Given { name: name.to_owned(), value })
    }

    /// One of the exporter: that of traces, else that of all signals.
    pub(super) fn of_exporter(&self, name: &str) -> Option<Given> {
        let own = self.get(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
        own.or(self.get(&format!("OTEL_EXPORTER_OTLP_{name}")))
    }
}

impl Given {
    pub(super) fn wrong(self, words: &str) -> EnvError {
        EnvError { variable: self.name, value: self.value, words: words.to_owned() }
    }

    /// A time. Nothing waits for ever here, and nothing spins: 0 is neither.
    pub(super) fn milliseconds(self) -> Result<Duration, EnvError> {
        match self.value.parse() {
            Ok(milliseconds @ 1..) => Ok(Duration::from_millis(milliseconds)),
            _ => Err(self.wrong("a whole number of milliseconds above 0 is wanted")),
        }
    }

    pub(super) fn count(self) -> Result<usize, EnvError> {
        match self.value.parse() {
            Ok(count @ 1..) => Ok(count),
            _ => Err(self.wrong("a whole number above 0 is wanted")),
        }
    }

    pub(super) fn limit(self) -> Result<usize, EnvError> {
        self.value.parse().map_err(|_| self.wrong("a whole number is wanted"))
    }

    pub(super) fn flag(self) -> Result<bool, EnvError> {
        match self.value.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.wrong("true or false is wanted")),
        }
    }

    /// `key=value,key=value`, with values in percent encoding.
    pub(super) fn pairs(self) -> Result<Vec<(String, String)>, EnvError> {
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').filter(|(key, _)| !key.trim().is_empty())?;
            let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
            Some((key.trim().to_owned(), value.into_owned()))
        };
        let pairs = self.value.split(',').map(str::trim).filter(|text| !text.is_empty());
        let all: Option<Vec<_>> = pairs.map(pair).collect();
        all.ok_or_else(|| self.wrong("key1=value1,key2=value2 is wanted"))
    }
}
