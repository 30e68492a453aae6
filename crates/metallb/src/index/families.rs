//! Contract §9: which IP families the cluster has, as far as the API server has said so.

use api::Family;
use k8s_openapi::api::core::v1::Service;
use plan::Object;

use super::Index;
use super::secondary::Dirty;
use crate::Key;
use crate::parse::service::View;

/// What the API server says of a Service of a family for which it has no addresses.
const NOT_CONFIGURED: &str = "not configured on this cluster";

impl Index {
    /// Whether the cluster has a family; unknown until a placeholder of it was made, or refused.
    pub fn has_family(&self, family: Family) -> Option<bool> {
        self.families.get(&family).copied()
    }

    /// The API server would not have a placeholder.
    pub(super) fn placeholder_refused(&mut self, object: &Object, words: &str, dirty: &mut Dirty) {
        if let Object::Service(service) = object
            && words.contains(NOT_CONFIGURED)
        {
            self.note_family(service, false, dirty);
        }
    }

    /// A placeholder is there: the cluster has its family.
    pub(super) fn placeholder_came(&mut self, service: &Service, dirty: &mut Dirty) {
        self.note_family(service, true, dirty);
    }

    fn note_family(&mut self, service: &Service, there: bool, dirty: &mut Dirty) {
        let asked = service.spec().ip_families.as_deref().and_then(<[String]>::first).map(String::as_str);
        let Some(family) = Family::ALL.into_iter().find(|family| asked == Some(family.as_str())) else {
            return;
        };
        if self.families.insert(family, there) != Some(there) {
            dirty.extend(self.classes.iter().map(|(name, _)| Key::Class(name.clone())));
        }
    }
}
