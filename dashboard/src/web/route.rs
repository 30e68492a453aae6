//! Which page a path means, and in what form.

use percent_encoding::percent_decode_str;

use crate::world::Key;

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// `/`
    Overview,
    /// `/addresses`
    Addresses,
    /// `/addresses/{name}`
    Address(String),
    /// `/claims`
    Claims,
    /// `/claims/{namespace}/{name}`
    Claim(Key),
    /// `/classes`
    Classes,
    /// `/classes/{name}`
    Class(String),
    /// `/services`
    Services,
    /// `/associations`
    Associations,
    /// `/conflicts`
    Conflicts,
    /// `/ip/{any address}`
    Ip(String),
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Html,
    /// For programs.
    Json,
    /// For spreadsheets.
    Csv,
}

impl Format {
    /// The form that a path asks for.
    pub fn of(path: &str) -> Self {
        Self::cut(path).1
    }

    /// A text without the end that names a form, and that form.
    fn cut(text: &str) -> (&str, Self) {
        if let Some(rest) = text.strip_suffix(".json") {
            return (rest, Self::Json);
        }
        text.strip_suffix(".csv").map_or((text, Self::Html), |rest| (rest, Self::Csv))
    }
}

/// What a path means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The page.
    pub page: Page,
    /// Its form.
    pub format: Format,
    /// An object's name may itself end in `.json`: the page it means then, which is meant if the object is there.
    pub whole: Option<Page>,
}

impl Route {
    /// What a path means; none if nothing.
    pub fn of(path: &str) -> Option<Self> {
        let inner = path.strip_prefix('/')?;
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        let parts: Vec<String> = inner
            .split('/')
            .map(|part| percent_decode_str(part).decode_utf8().map(Into::into))
            .collect::<Result<_, _>>()
            .ok()?;
        let (last, front) = parts.split_last()?;
        let (stem, format) = Format::cut(last);
        let page = |last: &str| page(front, last);
        let whole = if format == Format::Html { None } else { page(last) };
        Some(Self { page: page(stem)?, format, whole })
    }
}

fn page(front: &[String], last: &str) -> Option<Page> {
    let front: Vec<&str> = front.iter().map(String::as_str).collect();
    match (front.as_slice(), last) {
        ([], "" | "overview") => Some(Page::Overview),
        ([], "addresses") => Some(Page::Addresses),
        ([], "claims") => Some(Page::Claims),
        ([], "classes") => Some(Page::Classes),
        ([], "services") => Some(Page::Services),
        ([], "associations") => Some(Page::Associations),
        ([], "conflicts") => Some(Page::Conflicts),
        (_, "") => None,
        (["addresses"], name) => Some(Page::Address(name.to_owned())),
        (["classes"], name) => Some(Page::Class(name.to_owned())),
        (["claims", namespace], name) => Some(Page::Claim(Key::new(*namespace, name))),
        (["ip"], text) => Some(Page::Ip(text.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/", Page::Overview, Format::Html)]
    #[case("/overview.json", Page::Overview, Format::Json)]
    #[case("/addresses", Page::Addresses, Format::Html)]
    #[case("/addresses/", Page::Addresses, Format::Html)]
    #[case("/addresses.csv", Page::Addresses, Format::Csv)]
    #[case("/addresses/ip-192-0-2-7.json", Page::Address("ip-192-0-2-7".into()), Format::Json)]
    #[case("/claims/tenant-a/web.csv", Page::Claim(Key::new("tenant-a", "web")), Format::Csv)]
    #[case("/classes/public", Page::Class("public".into()), Format::Html)]
    #[case("/ip/2001:db8::7.json", Page::Ip("2001:db8::7".into()), Format::Json)]
    #[case("/ip/192.0.2.7", Page::Ip("192.0.2.7".into()), Format::Html)]
    #[case("/addresses/by%2Dhand", Page::Address("by-hand".into()), Format::Html)]
    fn paths(#[case] path: &str, #[case] page: Page, #[case] format: Format) {
        let route = Route::of(path).unwrap();
        assert_eq!((route.page, route.format), (page, format));
    }

    #[rstest]
    #[case("/nothing")]
    #[case("/addresses/a/b")]
    #[case("/claims/tenant-a")]
    #[case("/ip/192.0.2.0/24")]
    #[case("/addresses/%ff")]
    fn no_pages(#[case] path: &str) {
        assert_eq!(Route::of(path), None);
    }
}
