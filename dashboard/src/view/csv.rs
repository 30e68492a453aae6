//! Views as tables for spreadsheets: one line of heads, then one line for each row.

use super::addresses::Line;
use super::associations::AssociationItem;
use super::classes::ClassItem;
use super::conflicts::ConflictItem;
use super::list::List;
use super::services::ServiceItem;
use super::{
    AddressItem, AddressList, AddressView, ClaimItem, ClaimView, ClassView, Eye, IpView, Named, Overview,
    When,
};

/// A view that can be a table.
pub trait Table {
    /// The heads.
    const HEAD: &'static [&'static str];
    /// The rows, each as long as the heads.
    fn rows(&self) -> Vec<Vec<String>>;

    /// The table.
    fn csv(&self) -> String {
        let mut text = head::<Self>();
        for row in self.rows() {
            text.push_str(&line(row.into_iter()));
        }
        text
    }
}

impl<T: Table> Table for List<T> {
    const HEAD: &'static [&'static str] = T::HEAD;

    fn rows(&self) -> Vec<Vec<String>> {
        self.items.iter().flat_map(T::rows).collect()
    }
}

/// A table that is made piece by piece, when each is asked for, of what can be seen then; none when it is whole.
pub type Pieces = Box<dyn FnMut(&Eye) -> Option<String> + Send>;

/// So many rows are a piece.
const PIECE: usize = 250;

/// A table of rows that were found before. Each is looked at when its piece is made.
pub fn pieces<R: Send + 'static, T: Table + 'static>(rows: Vec<R>, item: fn(&Eye, &R) -> T) -> Pieces {
    let mut rows = rows.into_iter();
    let mut first = Some(head::<T>());
    Box::new(move |eye| {
        let mut text = first.take().unwrap_or_default();
        for row in rows.by_ref().take(PIECE) {
            for cells in item(eye, &row).rows() {
                text.push_str(&line(cells.into_iter()));
            }
        }
        (!text.is_empty()).then_some(text)
    })
}

fn head<T: Table + ?Sized>() -> String {
    line(T::HEAD.iter().map(|head| (*head).to_owned()))
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let mut text = cells.map(|cell| cell_of(&cell)).collect::<Vec<_>>().join(",");
    text.push_str("\r\n");
    text
}

/// A cell that no reader takes for two, and no spreadsheet for a formula.
fn cell_of(text: &str) -> String {
    let starts_a_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if starts_a_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\n', '\r', '\'']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

fn or_none<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn moment(when: Option<&When>) -> String {
    or_none(when.map(|when| when.at))
}

fn both(named: Option<&Named>) -> [String; 2] {
    named.map_or_else(Default::default, |named| [named.namespace.clone(), named.name.clone()])
}

const ADDRESS: &[&str] = &[
    "address",
    "name",
    "family",
    "class",
    "phase",
    "state",
    "claimNamespace",
    "claim",
    "serviceNamespace",
    "service",
    "offenders",
    "since",
];

fn address(item: &AddressItem) -> Vec<String> {
    let [claim_namespace, claim] = both(item.claim.as_ref());
    let [service_namespace, service] = both(item.service.as_ref());
    let offenders: Vec<_> = item.offenders.iter().map(ToString::to_string).collect();
    vec![
        item.address.clone(),
        item.name.clone(),
        or_none(item.family),
        item.class.clone(),
        item.phase.clone(),
        item.state.to_string(),
        claim_namespace,
        claim,
        service_namespace,
        service,
        offenders.join(" "),
        moment(Some(&item.since)),
    ]
}

impl Table for Line {
    const HEAD: &'static [&'static str] = ADDRESS;

    fn rows(&self) -> Vec<Vec<String>> {
        let row = match self {
            Self::Address(item) => address(item),
            Self::Gap(gap) => {
                let range = if gap.from == gap.to {
                    gap.from.to_string()
                } else {
                    format!("{}-{}", gap.from, gap.to)
                };
                let mut row = vec![range, String::new(), gap.from.family().to_string()];
                row.extend([String::new(), String::new(), "free".to_owned()]);
                row.resize(ADDRESS.len(), String::new());
                row
            }
        };
        vec![row]
    }
}

impl Table for AddressList {
    const HEAD: &'static [&'static str] = ADDRESS;

    fn rows(&self) -> Vec<Vec<String>> {
        self.items.iter().flat_map(Line::rows).collect()
    }
}

impl Table for AddressView {
    const HEAD: &'static [&'static str] = ADDRESS;

    fn rows(&self) -> Vec<Vec<String>> {
        vec![address(&self.item)]
    }
}

const CLAIM: &[&str] =
    &["namespace", "claim", "phase", "family", "class", "addresses", "services", "since", "created", "why"];

fn claim(item: &ClaimItem) -> Vec<String> {
    let addresses: Vec<_> = item.addresses.iter().map(|address| address.address.clone()).collect();
    let services: Vec<_> = item.services.iter().map(ToString::to_string).collect();
    vec![
        item.named.namespace.clone(),
        item.named.name.clone(),
        item.phase.clone(),
        item.family.clone(),
        or_none(item.class.as_ref()),
        addresses.join(" "),
        services.join(" "),
        moment(Some(&item.since)),
        moment(Some(&item.created)),
        or_none(item.why.as_ref().map(|why| &why.cause)),
    ]
}

impl Table for ClaimItem {
    const HEAD: &'static [&'static str] = CLAIM;

    fn rows(&self) -> Vec<Vec<String>> {
        vec![claim(self)]
    }
}

impl Table for ClaimView {
    const HEAD: &'static [&'static str] = CLAIM;

    fn rows(&self) -> Vec<Vec<String>> {
        vec![claim(&self.item)]
    }
}

const CLASS: &[&str] = &[
    "class",
    "provisioner",
    "reclaimPolicy",
    "pool",
    "accepted",
    "reason",
    "default",
    "family",
    "size",
    "attached",
    "reserved",
    "conflict",
    "other",
    "free",
    "outside",
];

/// One line for each family.
fn class(item: &ClassItem) -> Vec<Vec<String>> {
    let front = [
        item.name.clone(),
        item.provisioner.clone(),
        item.reclaim_policy.to_owned(),
        or_none(item.pool.as_ref()),
        or_none(item.accepted),
        or_none(item.reason.as_ref()),
        item.default.to_string(),
    ];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for room in &item.room {
        let mut row = front.to_vec();
        row.push(room.family.to_owned());
        row.push(or_none(room.size));
        row.extend([room.attached, room.reserved, room.conflict, room.other].map(|count| count.to_string()));
        row.push(or_none(room.free));
        row.push(room.outside.to_string());
        rows.push(row);
    }
    if rows.is_empty() {
        let mut row = front.to_vec();
        row.resize(CLASS.len(), String::new());
        rows.push(row);
    }
    rows
}

impl Table for ClassItem {
    const HEAD: &'static [&'static str] = CLASS;

    fn rows(&self) -> Vec<Vec<String>> {
        class(self)
    }
}

impl Table for ClassView {
    const HEAD: &'static [&'static str] = CLASS;

    fn rows(&self) -> Vec<Vec<String>> {
        class(&self.item)
    }
}

impl Table for Overview {
    const HEAD: &'static [&'static str] =
        &["class", "pool", "family", "size", "attached", "reserved", "conflict", "other", "free", "outside"];

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |room: &super::RoomView| {
            let mut row = vec![room.class.clone(), or_none(room.pool.as_ref()), room.family.to_owned()];
            row.push(or_none(room.size));
            row.extend(
                [room.attached, room.reserved, room.conflict, room.other].map(|count| count.to_string()),
            );
            row.push(or_none(room.free));
            row.push(room.outside.to_string());
            row
        };
        self.room.iter().map(row).collect()
    }
}

impl Table for ServiceItem {
    const HEAD: &'static [&'static str] = &[
        "namespace",
        "service",
        "type",
        "origin",
        "addresses",
        "claim",
        "ports",
        "loadBalancerClass",
        "created",
        "why",
    ];

    fn rows(&self) -> Vec<Vec<String>> {
        let addresses: Vec<_> = self.addresses.iter().map(|address| address.address.clone()).collect();
        vec![vec![
            self.named.namespace.clone(),
            self.named.name.clone(),
            self.r#type.clone(),
            self.origin.to_string(),
            addresses.join(" "),
            or_none(self.claim.as_ref().map(|claim| &claim.name)),
            self.ports.clone(),
            or_none(self.load_balancer_class.as_ref()),
            moment(Some(&self.created)),
            or_none(self.why.as_ref()),
        ]]
    }
}

impl Table for AssociationItem {
    const HEAD: &'static [&'static str] =
        &["address", "name", "serviceNamespace", "service", "uid", "since", "until"];

    fn rows(&self) -> Vec<Vec<String>> {
        vec![vec![
            self.address.clone(),
            self.name.clone(),
            self.service.namespace.clone(),
            self.service.name.clone(),
            self.uid.clone(),
            moment(Some(&self.since)),
            moment(self.until.as_ref()),
        ]]
    }
}

impl Table for ConflictItem {
    const HEAD: &'static [&'static str] =
        &["address", "name", "entitledNamespace", "entitled", "heldBy", "how", "since", "command"];

    fn rows(&self) -> Vec<Vec<String>> {
        let [namespace, entitled] = both(self.entitled.as_ref());
        let first = self.held_by.first();
        let all: Vec<_> = self.held_by.iter().map(|offence| offence.service.to_string()).collect();
        vec![vec![
            self.item.address.clone(),
            self.item.name.clone(),
            namespace,
            entitled,
            all.join(" "),
            or_none(first.map(|offence| &offence.how)),
            moment(Some(&self.item.since)),
            or_none(first.map(|offence| &offence.command.line)),
        ]]
    }
}

impl Table for IpView {
    const HEAD: &'static [&'static str] = &[
        "ip",
        "family",
        "state",
        "pool",
        "classes",
        "claimNamespace",
        "claim",
        "serviceNamespace",
        "service",
    ];

    fn rows(&self) -> Vec<Vec<String>> {
        let (claim, service) = self.holders();
        let mut row = vec![
            self.ip.clone(),
            self.family.to_owned(),
            self.state().to_owned(),
            or_none(self.pool.as_ref()),
            self.classes.join(" "),
        ];
        row.extend(both(claim));
        row.extend(both(service));
        vec![row]
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("web", "web")]
    #[case("a,b", "\"a,b\"")]
    #[case("say \"so\"", "\"say \"\"so\"\"\"")]
    #[case("two\nlines", "\"two\nlines\"")]
    #[case("=1+1", "\"'=1+1\"")]
    #[case("@SUM(A1)", "\"'@SUM(A1)\"")]
    #[case("-1", "\"'-1\"")]
    fn cells_stay_cells_and_are_no_formulas(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(cell_of(text), expected);
    }
}
