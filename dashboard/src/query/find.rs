//! The one search field: an IP, a range, a Service, a claim, a namespace, a part of a name, or a trace.

use api::Ip;
use ipnet::IpNet;
use memchr::memmem::Finder;
use plan::trace::TraceId;

/// A part of a text that is looked for in many: what speeds that up is worked out once.
#[derive(Clone, Debug)]
pub struct Needle(Finder<'static>);

impl Needle {
    /// Of that text, in lower case.
    pub fn new(text: &str) -> Self {
        Self(Finder::new(text).into_owned())
    }

    /// Whether the text contains it.
    pub fn is_in(&self, text: &str) -> bool {
        self.place_in(text).is_some()
    }

    /// The text itself.
    pub fn text(&self) -> &str {
        std::str::from_utf8(self.0.needle()).unwrap_or_default()
    }

    /// Where the text contains it first.
    pub fn place_in(&self, text: &str) -> Option<usize> {
        self.0.find(text.as_bytes())
    }
}

/// What is looked for.
#[derive(Clone, Debug)]
pub enum Find {
    /// One IP, in whatever spelling.
    One(Ip),
    /// The IPs from one to another.
    Between(Ip, Ip),
    /// A namespace, and a part of a name in it.
    Within(String, Needle),
    /// A part of any name or IP.
    Part(Needle),
}

impl Find {
    /// What a text looks for.
    pub fn of(text: &str) -> Self {
        let text = text.trim();
        if let Ok(ip) = Ip::lenient(text) {
            return Self::One(ip);
        }
        if let Ok(net) = text.parse::<IpNet>() {
            return Self::Between(net.network().into(), net.broadcast().into());
        }
        if let Some((first, last)) = text
            .split_once('-')
            .and_then(|(first, last)| Some((Ip::lenient(first).ok()?, Ip::lenient(last).ok()?)))
        {
            return Self::Between(first.min(last), first.max(last));
        }
        let text = text.to_lowercase();
        match text.split_once('/') {
            Some((namespace, name)) => Self::Within(namespace.to_owned(), Needle::new(name)),
            None => Self::Part(Needle::new(&text)),
        }
    }

    /// Whether an IP, by its own number, is meant.
    pub fn has_ip(&self, ip: Ip) -> bool {
        match self {
            Self::One(one) => *one == ip,
            Self::Between(first, last) => (*first..=*last).contains(&ip),
            Self::Within(..) | Self::Part(_) => false,
        }
    }

    /// Whether something of this namespace and name is meant.
    pub fn has_named(&self, namespace: &str, name: &str) -> bool {
        match self {
            Self::Within(wanted, part) => namespace == wanted && part.is_in(name),
            Self::Part(part) => part.is_in(namespace) || part.is_in(name),
            Self::One(_) | Self::Between(..) => false,
        }
    }

    /// Whether something of this namespace can be meant.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        !matches!(self, Self::Within(wanted, _) if namespace != wanted)
    }

    /// Whether a text without a namespace is meant: the name of a class, an IP as it is written.
    pub fn has_text(&self, text: &str) -> bool {
        matches!(self, Self::Part(part) if part.is_in(text))
    }

    /// The part of any text that is meant, if one is.
    pub const fn part(&self) -> Option<&Needle> {
        match self {
            Self::Part(part) => Some(part),
            Self::One(_) | Self::Between(..) | Self::Within(..) => None,
        }
    }

    /// The id of the trace that is meant, if the text is one. Only a whole id is: a part of a name is often a part of some.
    pub fn trace(&self) -> Option<&str> {
        let text = self.part()?.text();
        TraceId::parse(text).map(|_| text)
    }

    /// Whether what is found comes in the order of the index: not what is found by a part of any text.
    pub const fn keeps_order(&self) -> bool {
        self.part().is_none()
    }

    /// The IPs that are meant, if IPs are.
    pub fn range(&self) -> Option<(Ip, Ip)> {
        match self {
            Self::One(ip) => Some((*ip, *ip)),
            Self::Between(first, last) => Some((*first, *last)),
            Self::Within(..) | Self::Part(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("192.0.2.7", "192.0.2.7", true)]
    #[case("::ffff:192.0.2.7", "192.0.2.7", true)]
    #[case("2001:DB8:0::7", "2001:db8::7", true)]
    #[case("192.0.2.0/29", "192.0.2.7", true)]
    #[case("192.0.2.9/29", "192.0.2.8", true)]
    #[case("192.0.2.0/29", "192.0.2.8", false)]
    #[case("192.0.2.1-192.0.2.7", "192.0.2.7", true)]
    #[case("192.0.2.7-192.0.2.1", "192.0.2.1", true)]
    #[case("0.0.0.0/0", "2001:db8::7", false)]
    #[case("::/0", "2001:db8::7", true)]
    fn a1_ips_are_found_in_any_spelling(#[case] text: &str, #[case] ip: &str, #[case] expected: bool) {
        assert_eq!(Find::of(text).has_ip(ip.parse().unwrap()), expected);
    }

    #[rstest]
    #[case("4bf92f3577b34da6a3ce929d0e0e4736", true)]
    #[case("4BF92F3577B34DA6A3CE929D0E0E4736", true)]
    #[case("4bf92f3577b34da6a3ce929d0e0e473", false)]
    #[case("4bf92f3577b34da6a3ce929d0e0e473x", false)]
    fn only_a_whole_id_is_a_trace(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(Find::of(text).trace(), expected.then_some("4bf92f3577b34da6a3ce929d0e0e4736"));
    }

    #[rstest]
    #[case("web", "tenant-a", "web-v2", true)]
    #[case("WEB", "tenant-a", "web-v2", true)]
    #[case("tenant-a", "tenant-a", "mail", true)]
    #[case("tenant-a/", "tenant-a", "mail", true)]
    #[case("tenant-a/ma", "tenant-a", "mail", true)]
    #[case("tenant/mail", "tenant-a", "mail", false)]
    fn names_are_found_by_a_part(
        #[case] text: &str,
        #[case] namespace: &str,
        #[case] name: &str,
        #[case] expected: bool,
    ) {
        assert_eq!(Find::of(text).has_named(namespace, name), expected);
    }
}
