//! Any IP, allocated or not: pool, class, claim, Service, history.

use api::Ip;
use serde::Serialize;

use super::address::{Past, ShownBy};
use super::{AddressItem, Eye, Named};
use crate::query::BadQuery;
use crate::world::State;

/// What is known of an IP.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IpView {
    /// The IP, in its canonical form.
    pub ip: String,
    /// Its family.
    pub family: &'static str,
    /// In one sentence without the IP.
    pub sentence: String,
    /// The pool that contains it; operators only.
    pub pool: Option<String>,
    /// The classes that draw from that pool; operators only.
    pub classes: Vec<String>,
    /// The addresses that carry it.
    pub addresses: Vec<AddressItem>,
    /// The Services that show it.
    pub shown_by: Vec<ShownBy>,
    /// Who had it when, newest first.
    pub history: Vec<Past>,
}

/// An IP in whatever spelling.
///
/// # Errors
/// When the text is no IP.
pub fn read(text: &str) -> Result<Ip, BadQuery> {
    let words = || {
        BadQuery::new(format!(
            "{text:?} is no IP address; write one, such as /ip/203.0.113.7 or /ip/2001:db8::7"
        ))
    };
    Ip::lenient(text).map_err(|_| words())
}

impl Eye<'_> {
    /// What is known of an IP.
    pub fn ip_view(&self, ip: Ip) -> IpView {
        let rows: Vec<_> =
            self.world.addresses_on(ip).filter(|row| self.scope.sees_address(row)).cloned().collect();
        let views: Vec<_> = rows.iter().map(|row| self.address_view(row)).collect();
        let pool = self.world.pool_of(ip).filter(|_| self.scope.is_all());
        let classes =
            pool.map(|pool| self.world.classes_of(&pool.name).map(|class| class.name.to_string()).collect());
        let shown_by = match views.first() {
            Some(view) => view.shown_by.clone(),
            None => self.foreign(ip),
        };
        let sentence = match views.first() {
            Some(view) => view.sentence.clone(),
            None => self.unknown(pool.map(|pool| &*pool.name), &shown_by),
        };
        IpView {
            ip: ip.to_string(),
            family: ip.family().as_str(),
            sentence,
            pool: pool.map(|pool| pool.name.to_string()),
            classes: classes.unwrap_or_default(),
            shown_by,
            history: views.iter().flat_map(|view| view.history.clone()).collect(),
            addresses: views.into_iter().map(|view| view.item).collect(),
        }
    }

    /// The Services that show an IP of which no address may be seen.
    fn foreign(&self, ip: Ip) -> Vec<ShownBy> {
        let hidden = self.world.addresses_on(ip).any(|row| row.is_valid());
        let role = if hidden { "against the ledger" } else { "without a claim" };
        let services =
            self.world.services_on(ip).filter(|service| !service.placeholder || self.scope.is_all());
        let view = |service: &std::sync::Arc<crate::world::ServiceRow>| {
            let by = if service.ingress.contains(&ip) { "MetalLB" } else { "spec.externalIPs" };
            let role = if service.placeholder { "placeholder" } else { role };
            Some(ShownBy { service: self.named(&service.key)?, role, by })
        };
        services.filter_map(view).collect()
    }

    fn unknown(&self, pool: Option<&str>, shown_by: &[ShownBy]) -> String {
        if let Some(shown) = shown_by.first() {
            return match shown.role {
                "placeholder" => format!("is being reserved: placeholder {} has it.", shown.service),
                "against the ledger" => {
                    format!("is with Service {}, and is reserved for somebody else.", shown.service)
                }
                _ => format!("is with Service {}, and no address is written down for it.", shown.service),
            };
        }
        if !self.scope.is_all() {
            return "is not with anything of yours.".to_owned();
        }
        match pool {
            None => "is in no pool of MetalLB, and nobody has it.".to_owned(),
            Some(pool) => match self.world.classes_of(pool).next() {
                Some(class) => {
                    format!("is free: pool {pool} has it, and class {} draws from it.", class.name)
                }
                None => format!("is free in pool {pool}, from which no class draws."),
            },
        }
    }
}

impl IpView {
    /// The claim and the Service, for a line of a spreadsheet.
    pub fn holders(&self) -> (Option<&Named>, Option<&Named>) {
        let item = self.addresses.first();
        (item.and_then(|item| item.claim.as_ref()), self.shown_by.first().map(|shown| &shown.service))
    }

    /// Where it stands.
    pub fn state(&self) -> &'static str {
        match self.addresses.first() {
            Some(item) => State::word(item.state),
            None if !self.shown_by.is_empty() => "foreign",
            None if self.pool.is_some() => "free",
            None => "unknown",
        }
    }
}
