//! What stands around every page: its name, the ways to the others, who looks, and as of when.

use jiff::Timestamp;

use super::App;
use crate::Visitor;
use crate::view::Eye;

/// What stands around a page.
#[derive(Clone, Debug)]
pub struct Shell {
    /// The path before every link.
    pub base: String,
    /// The page's own path and query, within the base.
    pub here: String,
    /// Which way is the current one: a word of the navigation.
    pub section: &'static str,
    /// The text of the search field.
    pub search: String,
    /// How many conflicts there are.
    pub conflicts: usize,
    /// As of when the page is.
    pub as_of: Timestamp,
    /// Since when the API server does not answer.
    pub silent: Option<Timestamp>,
    /// Which state of the index it shows; no more than that can be read from it.
    pub token: String,
    /// The visitor's name.
    pub who: Option<String>,
    /// Whether the visitor sees some namespaces only.
    pub tenant: bool,
    /// Where the style sheet is.
    pub css: String,
    /// Where the script is.
    pub js: String,
    /// Where the icon is.
    pub icon: String,
}

impl Shell {
    /// The frame of an answer without an index to look at: errors, the login form.
    pub fn plain(app: &App) -> Self {
        let asset = |name| format!("{}{}", app.base(), app.0.assets.path(name));
        Self {
            base: app.base().to_owned(),
            here: String::new(),
            section: "",
            search: String::new(),
            conflicts: 0,
            as_of: app.now(),
            silent: None,
            token: String::new(),
            who: None,
            tenant: false,
            css: asset("app.css"),
            js: asset("app.js"),
            icon: asset("icon.svg"),
        }
    }

    /// The frame of a page.
    pub fn of(app: &App, visitor: &Visitor, eye: &Eye, here: &str, section: &'static str) -> Self {
        let silent = app.live().silent();
        Self {
            here: here.to_owned(),
            section,
            conflicts: eye.digest.conflicts.len(),
            as_of: silent.unwrap_or(eye.now),
            silent,
            token: token(app, eye.world.version_for(eye.scope)),
            who: visitor.name.clone(),
            tenant: !visitor.scope.is_all(),
            ..Self::plain(app)
        }
    }

    /// The time of day of the stamp.
    pub fn clock(&self) -> String {
        self.as_of.strftime("%H:%M:%S UTC").to_string()
    }
}

/// A version of the index as a visitor hears of it: the same while nothing changed for them, and telling nothing else.
pub fn token(app: &App, version: u64) -> String {
    app.0.assets.seal(version)
}
