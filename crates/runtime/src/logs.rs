//! Log lines, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::args::{LogFormat, Logs};

/// The log level cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error(
    "--log-level {level:?} is not one of error, warn, info, debug, trace, nor a list of tracing directives: {source}"
)]
pub struct LevelError {
    level: String,
    source: tracing_subscriber::filter::ParseError,
}

/// What the libraries say is said by us too, with the object and the way out; their own lines stay quiet.
const LIBRARIES: &str = "kube_client=error,kube_client::client::builder=off,kube_runtime=error,hyper=warn,\
                         hyper_util=warn,tower=warn,rustls=warn,h2=warn";

/// Starts logging. A second call in one process changes nothing.
///
/// # Errors
/// When the level cannot be understood.
pub fn init(args: &Logs) -> Result<(), LevelError> {
    let level = args.log_level.trim();
    let directives =
        if level.contains(['=', ',']) { level.to_owned() } else { format!("{level},{LIBRARIES}") };
    let filter =
        EnvFilter::try_new(directives).map_err(|source| LevelError { level: level.to_owned(), source })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _already_started = match args.log_format {
        LogFormat::Human => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    };
    Ok(())
}
