//! Contract §8: a class of the old form, whose pool the driver rendered, names that pool from now on.
//!
//! First the class's owner references go from pool and advertisement, then the class names the pool. The other
//! way round, a class deleted in between would take the pool with it, and with the pool every address.

mod cover;

use std::sync::Arc;

use api::IPAddressClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::ResourceExt;
use kube::core::{DynamicObject, Selector, SelectorExt};
use plan::{Action, Object, Target};
use serde_json::{Map, Value, json};

use super::{Errand, Write};
use crate::decide::class::is_served;
use crate::parse::pool::Pool;

/// What is read for it.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// All classes.
    pub classes: Vec<Arc<IPAddressClass>>,
    /// The pools of the MetalLB namespace.
    pub pools: Vec<Arc<DynamicObject>>,
    /// The L2 and BGP advertisements of the MetalLB namespace.
    pub advertisements: Vec<Arc<DynamicObject>>,
}

/// Plans the migration of one class, or of every class of this driver that has the old form.
pub fn plan(scene: &Scene, only: Option<&str>) -> Errand {
    let mut errand = Errand::default();
    let mut classes: Vec<_> = scene.classes.iter().collect();
    classes.sort_by_key(|class| class.name_any());
    if let Some(name) = only {
        classes.retain(|class| class.name_any() == name);
        match classes.first() {
            None => errand.refused.push(format!("IPAddressClass {name} does not exist; check --class")),
            Some(class) if !is_served(class) => errand.refused.push(format!(
                "IPAddressClass {name}: spec.provisioner is {:?}; only classes of {} are migrated",
                class.spec.provisioner,
                api::wellknown::driver::PROVISIONER
            )),
            Some(_) => {}
        }
    }
    for class in classes.into_iter().filter(|class| is_served(class)) {
        let mut part = Errand::default();
        match migrate(scene, class, &mut part) {
            Ok(()) => {
                errand.steps.extend(part.steps);
                errand.notes.extend(part.notes);
            }
            Err(words) => errand.refused.push(format!("IPAddressClass {}: {words}", class.name_any())),
        }
    }
    errand
}

fn migrate(scene: &Scene, class: &Arc<IPAddressClass>, errand: &mut Errand) -> Result<(), String> {
    let name = class.name_any();
    let rendered = format!("iad-{name}");
    let pool = scene.pools.iter().find(|pool| pool.name_any() == rendered);
    let parameters = class.spec.parameters.clone().unwrap_or_default();
    let old = parameters.contains_key("addresses");
    let owned = |object: &DynamicObject| object.owner_references().iter().any(|owner| is_of(owner, class));
    if !old {
        // Migrated by hand, and the owner references were forgotten: the pool would go with the class.
        let names_it = parameters.get("pool").and_then(Value::as_str) == Some(&rendered);
        let Some(pool) = pool.filter(|pool| names_it && owned(pool)) else { return Ok(()) };
        disown(pool, class, errand);
        rendered_advertisements(scene, &rendered).for_each(|object| disown(object, class, errand));
        return Ok(());
    }
    check_class(class, &parameters, &rendered)?;
    let Some(pool) = pool else {
        return Err(format!(
            "IPAddressPool {rendered} does not exist in the MetalLB namespace; create it with the addresses of \
             spec.parameters.addresses and spec.autoAssign: false, and run this again"
        ));
    };
    check_pool(scene, class, pool, &parameters)?;
    for object in rendered_advertisements(scene, &rendered) {
        check_owners(object, class)?;
    }
    disown(pool, class, errand);
    rendered_advertisements(scene, &rendered).for_each(|object| disown(object, class, errand));
    let mut body: Map<String, Value> = Map::from_iter([("addresses".to_owned(), Value::Null)]);
    body.insert("pool".to_owned(), json!(rendered));
    errand.step(
        format!("IPAddressClass {name}: set spec.parameters to {{pool: {rendered}}}"),
        Write::known(Action::patch(
            Target::of(&Object::Class(Arc::clone(class))),
            json!({ "spec": { "parameters": body } }),
        )),
    );
    tell_advertised(scene, pool, errand);
    Ok(())
}

/// Only the old form is known: `addresses`, and perhaps the pool it is to become.
fn check_class(class: &IPAddressClass, parameters: &Map<String, Value>, pool: &str) -> Result<(), String> {
    if class.metadata.deletion_timestamp.is_some() {
        return Err("it is being deleted; make it again in the new form when it is gone".to_owned());
    }
    match parameters.get("pool") {
        None => {}
        Some(named) if named == pool => {}
        Some(named) => {
            return Err(format!(
                "spec.parameters has addresses and pool: {named}, and the pool of its addresses is {pool}; remove one of the two"
            ));
        }
    }
    match parameters.keys().find(|field| !["addresses", "pool"].contains(&field.as_str())) {
        Some(field) => Err(format!("spec.parameters.{field} is not known; remove it")),
        None => Ok(()),
    }
}

/// The pool must be what the class's addresses were rendered to.
fn check_pool(
    scene: &Scene,
    class: &IPAddressClass,
    object: &DynamicObject,
    parameters: &Map<String, Value>,
) -> Result<(), String> {
    let name = object.name_any();
    if object.metadata.deletion_timestamp.is_some() {
        return Err(format!("IPAddressPool {name} is being deleted; create it again when it is gone"));
    }
    check_owners(object, class)?;
    if Pool::of(object).auto_assign {
        return Err(format!(
            "IPAddressPool {name} gives its addresses to any Service; set its spec.autoAssign to false"
        ));
    }
    let other = scene.classes.iter().find(|other| {
        let parameters = other.spec.parameters.as_ref();
        is_served(other)
            && other.name_any() != class.name_any()
            && parameters.and_then(|fields| fields.get("pool")).is_some_and(|pool| *pool == name)
    });
    if let Some(other) = other {
        return Err(format!(
            "IPAddressPool {name} is named by class {} already, and one pool serves one class; delete one of the classes",
            other.name_any()
        ));
    }
    let wanted = parameters.get("addresses").unwrap_or(&Value::Null);
    let has = object.data.pointer("/spec/addresses").unwrap_or(&Value::Null);
    cover::check(wanted, has).map_err(|words| {
        format!("{words} of IPAddressPool {name}; make them agree, so that no address is left out")
    })
}

/// Owners of other kinds are nobody's business here.
fn check_owners(object: &DynamicObject, class: &IPAddressClass) -> Result<(), String> {
    let stranger = object.owner_references().iter().find(|owner| is_class(owner) && !is_of(owner, class));
    match stranger {
        Some(owner) => Err(format!(
            "{} {} belongs to IPAddressClass {} of uid {}, which this class is not; remove that owner reference \
             if the object is this class's",
            kind(object),
            object.name_any(),
            owner.name,
            owner.uid
        )),
        None => Ok(()),
    }
}

fn is_class(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split('/').next();
    owner.kind == "IPAddressClass" && group == Some(api::wellknown::GROUP)
}

fn is_of(owner: &OwnerReference, class: &IPAddressClass) -> bool {
    is_class(owner) && Some(&owner.uid) == class.metadata.uid.as_ref() && owner.name == class.name_any()
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("object", |types| &types.kind)
}

/// What the old driver rendered besides the pool.
fn rendered_advertisements<'a>(scene: &'a Scene, name: &str) -> impl Iterator<Item = &'a Arc<DynamicObject>> {
    scene
        .advertisements
        .iter()
        .filter(move |object| kind(object) == "L2Advertisement" && object.name_any() == name)
}

/// The step that takes the class's owner reference away, if there is one; all others stay.
fn disown(object: &Arc<DynamicObject>, class: &IPAddressClass, errand: &mut Errand) {
    let (ours, others): (Vec<_>, Vec<_>) =
        object.owner_references().iter().partition(|owner| is_of(owner, class));
    if ours.is_empty() {
        return;
    }
    let body = json!({ "metadata": { "ownerReferences": others } });
    let write = if kind(object) == "IPAddressPool" {
        Write::known(Action::patch(Target::of(&Object::Pool(Arc::clone(object))), body))
    } else {
        Write::Foreign { object: Arc::clone(object), body }
    };
    let line = format!(
        "{} {}/{}: remove the owner reference to IPAddressClass {}",
        kind(object),
        object.namespace().unwrap_or_default(),
        object.name_any(),
        class.name_any()
    );
    errand.step(line, write);
}

/// Says how the pool is announced: that is the admin's from now on.
fn tell_advertised(scene: &Scene, pool: &DynamicObject, errand: &mut Errand) {
    let name = pool.name_any();
    if rendered_advertisements(scene, &name).next().is_some() {
        return;
    }
    let by: Vec<_> = scene
        .advertisements
        .iter()
        .filter(|object| advertises(object, pool))
        .map(|object| format!("{} {}", kind(object), object.name_any()))
        .collect();
    errand.notes.push(if by.is_empty() {
        format!(
            "there is no L2Advertisement {name}, and no other advertisement announces the pool: its addresses are \
             assigned and not announced until you make one"
        )
    } else {
        format!("there is no L2Advertisement {name}; the pool is announced by {}", by.join(", "))
    });
}

/// Whether an advertisement announces a pool: by name, by label, or as one that names none.
fn advertises(advertisement: &DynamicObject, pool: &DynamicObject) -> bool {
    let list = |field: &str| {
        let value = advertisement.data.pointer(&format!("/spec/{field}"));
        value.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (names, selectors) = (list("ipAddressPools"), list("ipAddressPoolSelectors"));
    if names.is_empty() && selectors.is_empty() {
        return true;
    }
    let labels = pool.labels();
    names.iter().any(|name| *name == pool.name_any())
        || selectors.into_iter().any(|selector| {
            let read = serde_json::from_value::<LabelSelector>(selector).ok();
            read.and_then(|read| Selector::try_from(read).ok())
                .is_some_and(|selector| selector.matches(labels))
        })
}

#[cfg(test)]
mod tests;
