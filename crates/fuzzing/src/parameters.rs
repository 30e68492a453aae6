//! `spec.parameters` of a class (contract §8).

use std::sync::LazyLock;

use api::IPAddressClass;
use metallb::parse::class::pool_name;
use plan::{Change, Object};
use serde_json::{Map, Value, json};

use crate::brains;

static CLASS: LazyLock<IPAddressClass> = LazyLock::new(|| {
    let class = json!({
        "apiVersion": "local.sdn.cozystack.io/v1alpha1", "kind": "IPAddressClass",
        "metadata": { "name": "public", "uid": "class", "resourceVersion": "9" },
        "spec": { "provisioner": api::wellknown::driver::PROVISIONER },
    });
    serde_json::from_value(class).expect("a class")
});

/// The bytes as the JSON of the parameters.
pub fn hold(data: &[u8]) {
    let Ok(parameters) = serde_json::from_slice::<Map<String, Value>>(data) else { return };
    match pool_name(Some(&parameters)) {
        Ok(pool) => {
            assert!(!pool.is_empty());
            let alone = json!({ "pool": pool });
            assert_eq!(alone.as_object(), Some(&parameters), "nothing but the pool is read");
        }
        Err(error) => assert!(error.to_string().contains("spec.parameters"), "{error}"),
    }
    let mut class = CLASS.clone();
    class.spec.parameters = Some(parameters);
    brains::see(&[Change::Applied(Object::from(class))]);
}
