//! Contract §11: who takes our marks off a Service again and again, and how long we wait before we put them back.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;

use super::Index;
use crate::parse::service::View;

/// The pause after the first time marks were put back; it doubles with each further time.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

/// A fight over the marks of one Service. Forgotten by a restart: then the first answer comes at once again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fight {
    /// How often in a row the marks were put back.
    count: u32,
    /// When they were put back last.
    at: Timestamp,
    /// Whether they were seen whole after that.
    healed: bool,
    /// How long to wait now; none if they may be put back.
    pause: Option<Duration>,
    /// Who wrote over the pin.
    managers: BTreeSet<String>,
}

impl Index {
    /// All our marks are on the Service.
    pub fn marks_are_whole(&mut self, service: &Service) {
        if let Some(fight) = self.fights.get_mut(service.object_uid()) {
            fight.healed = true;
            fight.pause = None;
        }
    }

    /// Somebody took marks of ours off a Service, or changed them. [`pause`](Self::pause) says from now on whether
    /// they may be put back.
    pub fn marks_are_broken(
        &mut self,
        service: &Service,
        served: bool,
        manager: Option<String>,
        now: Timestamp,
    ) {
        let new = || Fight { count: 1, at: now, healed: false, pause: None, managers: BTreeSet::new() };
        let uid = service.object_uid().to_owned();
        let fight = match self.fights.entry(uid) {
            std::collections::hash_map::Entry::Vacant(entry) => entry.insert(new()),
            std::collections::hash_map::Entry::Occupied(entry) => {
                let fight = entry.into_mut();
                // Without having healed, our last write was lost: it is repeated, and counts once.
                if fight.healed || fight.pause.is_some() {
                    let pause = fight.next_pause();
                    let passed = Duration::try_from(now.duration_since(fight.at)).unwrap_or_default();
                    if passed > pause.saturating_mul(2) {
                        *fight = new();
                    } else if passed >= pause || !served {
                        fight.count += 1;
                        fight.at = now;
                        fight.healed = false;
                        fight.pause = None;
                    } else {
                        fight.pause = Some(pause.saturating_sub(passed));
                    }
                }
                fight
            }
        };
        fight.managers.extend(manager);
    }

    /// How long marks of ours that somebody took off this Service must stay off; none if they may be put back.
    pub fn pause(&self, service: &Service) -> Option<Duration> {
        self.fights.get(service.object_uid())?.pause
    }

    /// Who wrote over the pin of this Service, lately.
    pub fn rivals(&self, service: &Service) -> Vec<String> {
        let fight = self.fights.get(service.object_uid());
        fight.map(|fight| fight.managers.iter().cloned().collect()).unwrap_or_default()
    }
}

impl Fight {
    fn next_pause(&self) -> Duration {
        FIRST.saturating_mul(1 << self.count.saturating_sub(1).min(16)).min(LONGEST)
    }
}
