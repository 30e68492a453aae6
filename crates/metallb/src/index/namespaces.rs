//! Namespaces: whom a pool serves depends on their labels (contract §8, §11).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use kube::core::DynamicObject;

use super::Index;
use super::secondary::Dirty;
use crate::Key;
use crate::parse::pool::{Pool, Relabelled};

impl Index {
    /// A pool as it is among the namespaces there are.
    pub(super) fn pool_among_namespaces(&self, pool: &DynamicObject) -> Pool {
        Pool::of(pool).among(self.namespaces.iter().map(|(_, namespace)| namespace.labels().clone()))
    }

    /// A namespace came, went or was relabelled: whoever a pool may serve now and did not before, or the other way
    /// round, is looked at again.
    pub(super) fn namespace_changed(
        &mut self,
        old: Option<&Namespace>,
        new: Option<&Namespace>,
        dirty: &mut Dirty,
    ) {
        let Some(name) = old.or(new).map(ResourceExt::name_any) else { return };
        let (old, new) = (old.map(ResourceExt::labels), new.map(ResourceExt::labels));
        if old == new {
            return;
        }
        let changed = self.relabel(old, new);
        let home = name == self.config.placeholder_namespace;
        if !changed.is_empty() {
            dirty.extend(self.claims_by_namespace.get(&name).cloned().map(Key::Claim));
        }
        for (pool, of) in changed {
            // Where placeholders are admitted decides on the class and on every hold.
            if of == Relabelled::All || home {
                self.mark_pool(&pool, dirty);
            }
        }
    }

    fn relabel(
        &mut self,
        old: Option<&BTreeMap<String, String>>,
        new: Option<&BTreeMap<String, String>>,
    ) -> Vec<(String, Relabelled)> {
        let pools = self.pools.iter_mut().map(|(name, pool)| (name.clone(), pool.relabelled(old, new)));
        pools.filter(|(_, of)| *of != Relabelled::Nothing).collect()
    }

    /// The classes that name a pool, with all that belongs to them, and whoever has an address of it: a pool may hold
    /// what another class once drew.
    pub(super) fn mark_pool(&self, pool: &str, dirty: &mut Dirty) {
        dirty.extend(self.pools.get(pool).map(|pool| self.users_of(pool)).into_iter().flatten());
        for class in self.classes_by_pool.get(&pool.to_owned()) {
            dirty.insert(Key::Class(class.clone()));
            self.mark_class(class, dirty);
        }
    }
}
